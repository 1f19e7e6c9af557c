# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 client (python3-h2): several streams at once on a connection that is kept until a GOAWAY."""
import h2.config
import h2.connection
import h2.events

from soak.pattern import Check


class Connection:
    def __init__(self, site):
        self.site = site
        self.sock = self.h2 = None

    def _open(self):
        self.sock = self.site.socket()
        if self.sock.selected_alpn_protocol() != "h2":
            raise ValueError(f"ALPN gave {self.sock.selected_alpn_protocol()}, not h2")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.last = None  # of a GOAWAY: streams above were not processed

    def streams(self, wanted):
        """Fetches the streams [(seed, size)] at once and compares them. Those above the last of a GOAWAY go out again."""
        wanted = list(wanted)
        while wanted:
            if self.sock is None:
                self._open()
            checks = {}
            for seed, size in wanted:
                number = self.h2.get_next_available_stream_id()
                self.h2.send_headers(number, [(":method", "GET"), (":scheme", "https"), (":authority", self.site.host()),
                                              (":path", f"/stream/{seed}/{size}/0")], end_stream=True)
                checks[number] = Check(seed), seed, size
            try:
                wanted = self._read(checks)
            except BaseException:
                self.close()
                raise
            if self.last is not None:
                self.close()

    def _read(self, checks):
        """Until all have ended; what was not processed."""
        again = []
        while checks:
            self.sock.sendall(self.h2.data_to_send())
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError(f"HTTP/2 connection closed with {len(checks)} streams open")
            for event in self.h2.receive_data(data):
                self._event(event, checks)
            if self.last is not None:
                for number in [n for n in checks if n > self.last]:
                    again.append(checks.pop(number)[1:])
        self.sock.sendall(self.h2.data_to_send())
        return again

    def _event(self, event, checks):
        if isinstance(event, h2.events.ResponseReceived) and dict(event.headers)[":status"] != "200":
            raise ValueError(f"status {dict(event.headers)[':status']}")
        if isinstance(event, h2.events.DataReceived):
            checks[event.stream_id][0].feed(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            check, _, size = checks.pop(event.stream_id)
            check.complete(size)
        elif isinstance(event, h2.events.StreamReset):
            raise ValueError(f"stream reset with error {event.error_code}")
        elif isinstance(event, h2.events.ConnectionTerminated):
            if event.error_code:
                raise ValueError(f"GOAWAY with error {event.error_code}: {event.additional_data}")
            self.last = min(event.last_stream_id, self.last or event.last_stream_id)

    def close(self):
        if self.sock:
            self.sock.close()
        self.sock = None
