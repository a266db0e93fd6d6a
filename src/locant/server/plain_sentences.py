"""The short way of a text that is one plain sentence, as that of most requests is.

What comes of it is what :class:`~locant.server.works.Works` makes of it, with fewer steps between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.server.models import Route
from locant.server.progress import Delivery
from locant.server.scheduler import Scheduler
from locant.server.tickets import Sentence
from locant.translation.compiled import Outcome
from locant.translation.hypotheses import Hypothesis


def search_input(text: str, route: Route, settings: DecodingSettings, most_tokens: int) -> Sentence | None:
    """Return a sentence for the search; ``None`` where it has no tokens or has to be cut."""
    tokens = route.translator.tokenizers.source.encode([text])[0]
    if not tokens or len(tokens) > most_tokens:
        return None
    source, longest = route.translator.search_input(tokens, settings, route.prefixes)
    return Sentence(source, longest, route.prefixes.target, settings)


async def search(
    scheduler: Scheduler, client: str, sentence: Sentence, delivery: Delivery, *, resumed: bool
) -> list[Hypothesis]:
    """Return the hypotheses of a sentence; who does not wait for them any more frees its place."""
    found: asyncio.Future[list[Hypothesis]] = delivery.loop.create_future()

    def arrive(outcome: Outcome) -> None:
        if found.done():
            return
        if isinstance(outcome, LocantError):
            found.set_exception(outcome)
        else:
            found.set_result(outcome)

    def deliver(results: Sequence[tuple[int, Outcome]]) -> None:
        delivery.put(partial(arrive, results[0][1]))

    ticket = scheduler.submit(client, [sentence], deliver, resumed=resumed)
    try:
        return await found
    except asyncio.CancelledError:
        scheduler.cancel(ticket)
        raise
