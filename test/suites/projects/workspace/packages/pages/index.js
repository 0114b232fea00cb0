exports.greeting = (name) => `data:text/html,<h1>Hello ${name}</h1>`;
