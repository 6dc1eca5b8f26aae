"""The command ``gpclass explore``, and the server behind it."""

import ipaddress
import logging
import socket
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from gpclass.app.options import Target

HOST: Final = "127.0.0.1"
PORT: Final = 8050


def explore(
    data: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL|NAME|FILE]", help="A fitted model (.skops), a data set, or a table."
        ),
    ] = "breast_cancer",
    target: Target = None,
    positive: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="NAME", help="Of several classes one to set against the rest."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to serve at; another lets other machines in.")
    ] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = PORT,
) -> None:
    """Move hyperparameters, method and likelihood in the browser (needs dash)."""
    from gpclass.app.explorer.page import make_app, require_dash
    from gpclass.app.explorer.subjects import subject

    require_dash()
    serve(make_app(subject(data, target, positive)), host, port)


def serve(app: Any, host: str = HOST, port: int = PORT) -> None:
    """Serve an application until Ctrl-C; OSError where the address is not to be had."""
    make_server = import_module("werkzeug.serving").make_server
    with socket.create_server((host, port)) as taken:
        port = taken.getsockname()[1]
        if is_local(host):
            # a page of the internet could name this machine by a domain of its own
            app.server.config["TRUSTED_HOSTS"] = [host, "localhost"]
        else:
            print(
                f"gpclass: served at {host}: whoever reaches this machine over the network sees "
                "the data and can make it compute, without a password and without encryption.",
                file=sys.stderr,
            )
        # one line a request says nothing to who moves a slider
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        server = make_server(host, port, app.server, threaded=True, fd=taken.fileno())
        print(f"explorer: http://{host}:{port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        finally:
            server.server_close()


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
