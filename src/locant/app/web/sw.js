// Keeps the page and its model in the browser's cache, so that it opens without a network. A page that was exported anew
// has another version, and takes the place of this one.

const CACHE = `locant ${self.registration.scope} {{version}}`;
const FILES = {{files}};

self.addEventListener("install", (event) => {
  const requests = FILES.map((file) => new Request(file, { cache: /^model-/.test(file) ? "default" : "reload" }));
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.addAll(requests))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  const ours = (name) => name.startsWith(`locant ${self.registration.scope} `) && name !== CACHE;
  const forget = async () => Promise.all((await caches.keys()).filter(ours).map((name) => caches.delete(name)));
  event.waitUntil(forget().then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const answer = async () => {
    const cache = await caches.open(CACHE);
    return (await cache.match(event.request, { ignoreSearch: true })) ?? fetch(event.request);
  };
  if (event.request.method === "GET") event.respondWith(answer());
});
