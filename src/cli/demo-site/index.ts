/**
 * A small shop, for the example checks and for specs to be tried on: pages with what browsers are usually
 * asked to do, and an API. It hides its pages, sessions and drafts. It keeps a bounded part of what
 * visitors send, in memory only, and every request gets an answer.
 */
import type { RequestListener } from 'node:http';
import { accountRoutes } from './account.ts';
import { apiRoutes } from './api.ts';
import { fileRoutes } from './files.ts';
import { gestureRoutes } from './gestures.ts';
import { STYLE } from './html.ts';
import { serve } from './serve.ts';
import { Sessions } from './sessions.ts';
import { shopRoutes } from './shop.ts';
import { surroundingsRoutes } from './surroundings.ts';
import { text } from './visit.ts';
import { windowRoutes } from './windows.ts';

/** Answers the requests of one site, with sessions and drafts of its own. */
export function demoSite(): RequestListener {
  const sessions = new Sessions();
  return serve([
    ...shopRoutes(sessions),
    ...accountRoutes(sessions),
    ...fileRoutes(),
    ...windowRoutes(),
    ...gestureRoutes(),
    ...surroundingsRoutes(),
    ...apiRoutes(),
    ['GET', '/style.css', () => text(200, STYLE, 'text/css; charset=utf-8')],
  ]);
}
