"""Serve models over HTTP, with a page for browsers.

Clients of LibreTranslate and DeepL work with the address of this server; our own
API is at /v1, described in /openapi.json. Several requests are translated together,
and a model that was trained again is loaded without a pause. The page is at the
address itself. Requires: pip install 'clearhead[serve]'.

  clearhead serve runs/en-de runs/de-en
  clearhead serve runs/en-de --port 5000 --keys keys.txt --rate 120
  clearhead serve runs/en-de --host 0.0.0.0 --workers 2
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from clearhead.cli.failures import print_message
from clearhead.cli.options import add_shared, at_least, positive
from clearhead.errors import ConfigError, reason

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Addresses that only this machine reaches."""


def _port(text: str) -> int:
    """The number of a port."""
    if (port := at_least(0, text)) > 65_535:
        raise ArgumentTypeError(f"{port} is more than 65535")
    return port


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [FOLDER ...] [options]"
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="model folders")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0: all, so that other machines reach it (default: "
        "127.0.0.1, this machine only)",
    )
    parser.add_argument(
        "--port", type=_port, metavar="N", default=8000, help="port; 0: any (default: 8000)"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another name by which clients call the server, such as translate.example.org of a "
        "proxy; may be repeated (default: those of this machine; any name if --host is another "
        "address)",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        default=1,
        help="number of processes, each with its own copy of the models (default: 1)",
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--queue",
        type=positive,
        metavar="N",
        default=64,
        help="requests for a model at the same time; further ones are refused (default: 64)",
    )
    limits.add_argument(
        "--characters",
        type=positive,
        metavar="N",
        default=100_000,
        help="characters of a request (default: 100000)",
    )
    limits.add_argument(
        "--body",
        type=positive,
        metavar="MB",
        default=10,
        help="size of a request, such as a document, in megabytes (default: 10)",
    )
    limits.add_argument(
        "--seconds",
        type=positive,
        metavar="N",
        default=60,
        help="seconds after which a request is given up (default: 60)",
    )
    limits.add_argument(
        "--rate",
        type=positive,
        metavar="N",
        default=0,
        help="requests of a client in a minute (default: any number)",
    )
    access = parser.add_argument_group("access and logs")
    access.add_argument(
        "--keys",
        metavar="FILE",
        default="",
        help="file with the API keys that are accepted, one a line, with a name if you like: "
        "anna: KEY (default: no key is needed)",
    )
    access.add_argument(
        "--trust-proxy",
        metavar="ADDRESSES",
        default="127.0.0.1",
        help="addresses of proxies whose X-Forwarded-For is believed (default: 127.0.0.1)",
    )
    access.add_argument(
        "--storage",
        metavar="FOLDER",
        default="",
        help="folder of uploaded documents and glossaries (default: a temporary one)",
    )
    limits.add_argument(
        "--storage-size",
        type=positive,
        metavar="MB",
        default=500,
        help="size of all uploaded documents and glossaries, in megabytes (default: 500)",
    )
    access.add_argument(
        "--log-texts", action="store_true", help="log the texts of requests (default: never)"
    )
    access.add_argument("--no-page", action="store_true", help="offer no page")
    access.add_argument(
        "--no-inspect", action="store_true", help="let nobody look inside the models"
    )
    add_shared(parser, "--normalise", "--device", "--threads", "--engine", "--compute-type")
    add_shared(parser, "--glossary", "--memory", "--match")


def run(args: Namespace) -> None:
    """Serve until a signal ends the process."""
    try:
        import uvicorn

        from clearhead.serve.app import create
        from clearhead.serve.metrics import MULTIPLE
        from clearhead.serve.settings import ServeSettings
    except ImportError as error:
        raise ConfigError(
            "a package that the server needs is not installed",
            why=str(error),
            todo="pip install 'clearhead[serve]'",
        ) from None
    port = _free_port(args.host, args.port)
    names = ("device", "threads", "engine", "compute_type", "glossary", "memory", "match")
    with tempfile.TemporaryDirectory(prefix="clearhead-") as temporary:
        settings = ServeSettings(
            folders=tuple(args.folders),
            storage=args.storage or temporary,
            options={name: getattr(args, name) for name in names},
            normalise=args.normalise,
            queue=args.queue,
            characters=args.characters,
            body=1_000_000 * args.body,
            seconds=args.seconds,
            rate=args.rate,
            keys=args.keys,
            storage_bytes=1_000_000 * args.storage_size,
            log_texts=args.log_texts,
            hosts=_hosts(args.host, args.allow_host),
            page=not args.no_page,
            inspect=not args.no_inspect,
        )
        if args.workers > 1:
            os.environ[MULTIPLE] = os.path.join(temporary, "metrics")
            os.mkdir(os.environ[MULTIPLE])
        settings.to_environment()
        # One process builds the application itself, so that a mistake is reported as an error.
        app = create(settings)
        if args.workers > 1:
            app.state.server.close()
        print_message(f"http://{args.host}:{port} serves {', '.join(args.folders)}")
        # Uploads that are received are there until they are read.
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
        # uvicorn finishes the requests, and then sends itself the signal that it got.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        uvicorn.run(
            "clearhead.serve.app:from_environment" if args.workers > 1 else app,
            factory=args.workers > 1,
            host=args.host,
            port=port,
            workers=args.workers,
            access_log=False,
            log_level="warning",
            server_header=False,
            forwarded_allow_ips=args.trust_proxy,
            timeout_graceful_shutdown=60,
        )


def _hosts(host: str, others: list[str]) -> tuple[str, ...]:
    """The names by which clients may call the server; empty for any."""
    names = [other.lower() for other in others]
    if host not in LOCAL:
        return (host, *names) if names else ()
    return (*LOCAL, "[::1]", *names)


def _free_port(host: str, port: int) -> int:
    """The port, or a free one if it is 0.

    Raises:
        ConfigError: something else listens there, or there is no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as found:
            return found.getsockname()[1]
    except OSError as error:
        raise ConfigError(
            f"the server cannot listen on {host}, port {port}",
            why=reason(error),
            todo="choose another one: --port N; 0 is any free port",
        ) from None
