"""How much the gateway benchmark does: counts, durations and calls of one round, as data."""

from dataclasses import dataclass

from bench.calls import Call, stream_call, unary_call

STREAM_CHUNKS = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the benchmark; the defaults are a full run.

    Attributes:
        rounds: Times every target is measured, in turn, the order rotating.
        crowd_rounds: Rounds that also hold the thousand slow streams.
        warm_up: Exchanges thrown away before each sequence.
        unary_count: Unary exchanges in sequence.
        first_byte_count: Short streams in sequence, for the time to the first byte; twice, their
            chunks back to back and with a gap.
        burst_count: 100-chunk streams in sequence, chunks back to back.
        paced_count: 100-chunk streams in sequence, chunks `paced_gap_seconds` apart.
        steady_seconds: Length of the streams while the CPU is measured, twice: lightly loaded
            (`light_streams`) and heavily loaded (`loaded_streams`).
        saturation_connections: Connections that stream without a pause.
        crowd_streams: Slow streams at once.
    """

    rounds: int = 5
    crowd_rounds: int = 3
    unary_count: int = 1_000
    first_byte_count: int = 200
    burst_count: int = 100
    paced_count: int = 5
    steady_seconds: float = 2.0
    saturation_seconds: float = 3.0
    crowd_seconds: float = 8.0
    warm_up: int = 20
    idle_seconds: float = 1.0
    paced_gap_seconds: float = 0.005
    light_streams: int = 40
    loaded_streams: int = 160
    steady_gap_seconds: float = 0.02
    saturation_connections: int = 32
    crowd_streams: int = 1_000
    crowd_ramp_seconds: float = 2.0

    def limit_of(self, stream_seconds: float) -> float:
        """How long a stream among many may take before it counts as failed."""
        return 2.0 * stream_seconds + 10.0

    @property
    def unary(self) -> Call:
        """A chat completion in one piece."""
        return unary_call()

    @property
    def short(self) -> Call:
        """A stream of four chunks back to back."""
        return stream_call(chunks=4)

    @property
    def short_paced(self) -> Call:
        """A stream of four chunks with a gap, so that every process sleeps in between."""
        return stream_call(chunks=4, gap_seconds=self.paced_gap_seconds)

    @property
    def burst(self) -> Call:
        """A stream of 100 chunks back to back."""
        return stream_call(chunks=STREAM_CHUNKS)

    @property
    def paced(self) -> Call:
        """A stream of 100 chunks with a gap, as a model sends them."""
        return stream_call(chunks=STREAM_CHUNKS, gap_seconds=self.paced_gap_seconds)

    @property
    def steady(self) -> Call:
        """One of many paced streams: 50 chunks a second, so each chunk travels alone."""
        gap_seconds = self.steady_gap_seconds
        return stream_call(chunks=int(self.steady_seconds / gap_seconds), gap_seconds=gap_seconds)

    @property
    def crowd(self) -> Call:
        """One of a thousand slow streams: two chunks a second."""
        return stream_call(chunks=int(self.crowd_seconds * 2), gap_seconds=0.5)


FULL = Plan()
QUICK = Plan(
    rounds=2,
    crowd_rounds=1,
    unary_count=300,
    first_byte_count=60,
    burst_count=30,
    paced_count=3,
    steady_seconds=1.0,
    saturation_seconds=1.5,
    crowd_seconds=4.0,
)
