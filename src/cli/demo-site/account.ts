import { html, page } from './html.ts';
import type { Session, Sessions } from './sessions.ts';
import { formOf, redirect, type Answer, type Route } from './visit.ts';

/** No secret: the page of the login shows both. */
export const DEMO_USER = 'demo';
export const DEMO_PASSWORD = 'harbour-light';

export const isDemoUser = (user: unknown, password: unknown): boolean =>
  user === DEMO_USER && password === DEMO_PASSWORD;

/** Login, logout and what lies behind. */
export function accountRoutes(sessions: Sessions): Route[] {
  return [
    ['GET', '/login', () => loginPage(false)],
    [
      'POST',
      '/login',
      (visit) => {
        const form = formOf(visit);
        if (!isDemoUser(form.get('user'), form.get('password'))) return loginPage(true);
        return redirect('/account', sessions.renew(sessions.of(visit), DEMO_USER));
      },
    ],
    ['POST', '/logout', (visit) => redirect('/login', sessions.end(sessions.of(visit)))],
    ['GET', '/account', (visit) => accountPage(sessions.of(visit))],
  ];
}

function loginPage(isWrong: boolean): Answer {
  return page(
    'Login',
    html`${isWrong ? html`<p role="alert" class="error">User or password is wrong.</p>` : undefined}
      <p>
        This is a demo: the user is <code>${DEMO_USER}</code>, the password <code>${DEMO_PASSWORD}</code>.
      </p>
      <form method="post" action="/login">
        <label>User <input name="user" autocomplete="username" required /></label>
        <label
          >Password <input type="password" name="password" autocomplete="current-password" required
        /></label>
        <button>Log in</button>
      </form>`,
    isWrong ? 401 : 200,
  );
}

function accountPage({ user, cart }: Session): Answer {
  if (user === null) return redirect('/login');
  const count = [...cart.values()].reduce((sum, each) => sum + each, 0);
  return page(
    'Account',
    html`<p>Logged in as <strong data-testid="user">${user}</strong>.</p>
      <p>${count} ${count === 1 ? 'thing' : 'things'} in the cart</p>
      <form method="post" action="/logout"><button>Log out</button></form>`,
  );
}
