import { createServer } from 'node:http';

const port = Number(process.env.PORT ?? 4311);
createServer((request, response) => {
  const isKnown = /session=ada/.test(request.headers.cookie ?? '');
  if (request.url === '/login') {
    response.writeHead(302, { 'set-cookie': 'session=ada; Path=/', location: '/' }).end();
  } else {
    response.setHeader('content-type', 'text/html');
    response.end(
      `<body style="margin:0;background:#246"><p id="who">${isKnown ? 'Ada' : 'nobody'}</p></body>`,
    );
  }
}).listen(port, '127.0.0.1');
