package remote

import (
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

// NewGreeting returns the greeting of this ibrun on the host with this name.
func NewGreeting(host string) protocol.Greeting {
	return protocol.Greeting{Protocol: protocol.NodeProtocol, Version: word(buildinfo.Version()), Host: word(host)}
}

// word returns the first word of a text.
func word(text string) string { return append(strings.Fields(text), "unknown")[0] }
