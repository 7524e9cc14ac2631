package perftest

import (
	"fmt"
	"strings"
)

// Op is a measurement.
type Op struct {
	Name  string // as in perftest, without ib_
	About string // what is measured, in one line
	Sizes []int  // message sizes in bytes that are worth measuring

	verb     verb
	rate     bool // the figure is in MB/s; otherwise in microseconds
	messages int  // messages in a round trip, by which its time is divided: 2 for a ping-pong; 0 for a rate
	passive  bool // the server only waits until the client is done
}

type verb uint8

const (
	send verb = iota
	write
	read
	fetchAdd
)

// AtomicBytes is the operand size of atomic operations, the only one that they have.
const AtomicBytes = 8

var (
	small = []int{8}
	large = []int{64 << 10, 1 << 20}
)

var ops = [...]Op{
	{Name: "send_lat", About: "half the round trip of a SEND", Sizes: small, verb: send, messages: 2},
	{Name: "write_lat", About: "half the round trip of a WRITE", Sizes: small, verb: write, messages: 2},
	{Name: "read_lat", About: "a READ", Sizes: small, verb: read, messages: 1, passive: true},
	{Name: "atomic_lat", About: "a FETCH AND ADD", Sizes: small, verb: fetchAdd, messages: 1, passive: true},
	{Name: "send_bw", About: "bandwidth of SENDs", Sizes: large, verb: send, rate: true},
	{Name: "write_bw", About: "bandwidth of WRITEs", Sizes: large, verb: write, rate: true, passive: true},
	{Name: "read_bw", About: "bandwidth of READs", Sizes: large, verb: read, rate: true, passive: true},
	{Name: "atomic_bw", About: "bandwidth of FETCH AND ADD", Sizes: small, verb: fetchAdd, rate: true, passive: true},
}

// Ops returns all measurements.
func Ops() []Op { return ops[:] }

// Lookup returns a measurement by its name.
func Lookup(name string) (Op, error) {
	var names []string
	for _, op := range ops {
		if op.Name == name {
			return op, nil
		}
		names = append(names, op.Name)
	}
	return Op{}, fmt.Errorf("unknown measurement %q; choose one of %s", name, strings.Join(names, ", "))
}

// Program returns the name of the program of perftest for the same measurement.
func (op Op) Program() string { return "ib_" + op.Name }

// Rate reports whether figures are in MB/s, where more is better. Otherwise they are in microseconds.
func (op Op) Rate() bool { return op.rate }

// Messages returns the number of messages in a round trip. A latency is the time of a round trip divided by it.
func (op Op) Messages() int { return op.messages }

// Takes reports whether messages of this many bytes can be measured.
func (op Op) Takes(size int) bool {
	return size > 0 && size <= 1<<31 && (op.verb != fetchAdd || size == AtomicBytes)
}
