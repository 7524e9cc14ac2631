package tunables

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/perf"
)

// Protocol is the variable that names the protocol by which a rank sends its messages, in place of the one that it would choose.
// Its values are those of [ParseProtocol].
const Protocol = "IBRUN_PROTOCOL"

// autoProtocol is the value that leaves the choice to the rank. randomProtocol, followed by a number, the seed, makes it draw a
// protocol for each message.
const (
	autoProtocol   = "auto"
	randomProtocol = "random:"
)

// ForcedProtocol is a protocol for all messages, or, if Random is set, one for each message, drawn with this seed.
type ForcedProtocol struct {
	Protocol perf.Protocol
	Random   bool
	Seed     uint64
}

// ParseProtocol parses the name of a protocol as package perf prints it, "random:SEED", or "auto", for which it returns nil.
func ParseProtocol(text string) (*ForcedProtocol, error) {
	if text == autoProtocol {
		return nil, nil
	}
	if seed, ok := strings.CutPrefix(text, randomProtocol); ok {
		if n, err := strconv.ParseUint(seed, 10, 64); err == nil {
			return &ForcedProtocol{Random: true, Seed: n}, nil
		}
	}
	var names []string
	for p := range perf.Protocols {
		if p.String() == text {
			return &ForcedProtocol{Protocol: p}, nil
		}
		names = append(names, p.String())
	}
	return nil, fmt.Errorf("want %s, %s or %sSEED", autoProtocol, strings.Join(names, ", "), randomProtocol)
}

// ProtocolFromEnv returns the value of the variable [Protocol], or nil if it is not set or leaves the choice to the rank.
func ProtocolFromEnv(getenv func(string) string) (*ForcedProtocol, error) {
	text := getenv(Protocol)
	if text == "" {
		return nil, nil
	}
	f, err := ParseProtocol(text)
	if err != nil {
		err = fmt.Errorf("%s=%.60q: %w", Protocol, text, err)
	}
	return f, err
}
