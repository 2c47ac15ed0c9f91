# SPDX-License-Identifier: MIT
"""A program that uses the Python client, for python_types_test.py; it is not run."""

from __future__ import annotations

import datetime
import pathlib

import mnemon


def text_of(client: mnemon.Client, prompt: mnemon.Prompt) -> str:
    pieces = [chunk.text for chunk in client.generate(prompt, max_tokens=5, top_p=0.9)]
    result: mnemon.GenerateResult = client.generate([1, 2], stop_strings=["."]).result()
    seconds: float = result.finish.generation_seconds
    return "".join(pieces) + result.text + f"{seconds}"


def branches(client: mnemon.Client) -> list[mnemon.Checkpoint]:
    sampling: mnemon.Sampling = {"temperature": 0.8, "logit_bias": {3: -1.0}}
    with client.session("anna", durability="always", sampling=sampling) as anna:
        place = anna.checkpoint()
        with anna.fork(token_count=3, ttl=60) as fork:
            fork.generate("a", introspection=["update_norms"], progress=True).result()
        info: mnemon.SessionInfo = anna.rewind(place)
        anna.rewind("start")
        anna.export(pathlib.Path("anna.session"))
        expires: datetime.datetime | None = info.expire_time
        print(expires, anna.verify(replay=True).ok)
        return anna.checkpoints


def norms(client: mnemon.Client) -> list[float]:
    views = [view for chunk in client.generate("a") for view in chunk.introspection]
    return [norm for view in views for norm in view.update_norms]


async def same_with_asyncio(prompts: list[str]) -> float:
    async with mnemon.aio.Client(retry=mnemon.Retry(tries=3)) as client:
        async with client.session() as anna:
            async for chunk in anna.generate(prompts[0], logprobs=True):
                print([token.logprob for token in chunk.logprobs])
            result: mnemon.GenerateResult = await anna.generate()
            other: mnemon.aio.Session = await anna.fork("bert")
            ids = [session.id async for session in client.list_sessions()]
            print(result.text, other.token_count, ids)
            return (await anna.score(prompts, commit=True)).perplexity


def caught(client: mnemon.Client) -> str:
    try:
        return client.generate("a", timeout=3.0).text
    except mnemon.InvalidArgument as error:
        return error.field_violations[0].field
    except mnemon.Error as error:
        return error.reason
