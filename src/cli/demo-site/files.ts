import { CATALOG } from './catalog.ts';
import { html, page } from './html.ts';
import { Refusal, text, type Answer, type Route, type Visit } from './visit.ts';

/** A download and an upload. */
export function fileRoutes(): Route[] {
  return [
    ['GET', '/files', () => filesPage()],
    ['GET', '/prices.csv', () => priceList()],
    ['POST', '/files', (visit) => filesPage(fileOf(visit))],
  ];
}

interface Upload {
  name: string;
  bytes: number;
}

function filesPage(upload?: Upload): Answer {
  const received = upload && html`<p role="status">Received ${upload.name}, ${upload.bytes} bytes.</p>`;
  return page(
    'Files',
    html`${received}
      <p><a href="/prices.csv">Download the price list</a></p>
      <form method="post" action="/files" enctype="multipart/form-data">
        <label>Your order as a file <input type="file" name="file" required /></label>
        <p id="chosen" aria-live="polite"></p>
        <button>Upload</button>
      </form>
      <script>
        const input = document.querySelector('input[type=file]');
        input.addEventListener('change', () => {
          const [file] = input.files;
          document.getElementById('chosen').textContent = file ? file.name + ', ' + file.size + ' bytes' : '';
        });
      </script>`,
  );
}

function priceList(): Answer {
  const lines = CATALOG.map(({ id, name, cents }) => `${id},"${name}",${(cents / 100).toFixed(2)}`);
  const answer = text(200, `${['id,name,price', ...lines].join('\n')}\n`, 'text/csv; charset=utf-8');
  return {
    ...answer,
    headers: { ...answer.headers, 'content-disposition': 'attachment; filename="prices.csv"' },
  };
}

/** Name and size of the first part of a multipart body that is a file; nothing of it is kept. */
function fileOf({ headers, body }: Visit): Upload {
  const type = headers['content-type'] ?? '';
  const boundary = /^multipart\/form-data;.*boundary="?([^";]{1,70})"?/i.exec(type)?.[1];
  if (boundary === undefined) throw new Refusal(415, 'Send a form with a file.');
  for (let at = body.indexOf(`--${boundary}\r\n`); at >= 0;) {
    const head = body.indexOf('\r\n\r\n', at);
    const end = body.indexOf(`\r\n--${boundary}`, at);
    if (head < 0 || end < 0) break;
    const name = /;\s*filename="([^"\r\n]*)"/i.exec(body.toString('utf8', at, head))?.[1];
    if (name !== undefined && name !== '') return { name, bytes: Math.max(0, end - head - 4) };
    at = body.indexOf(`--${boundary}\r\n`, end);
  }
  throw new Refusal(400, 'There is no file in the form.');
}
