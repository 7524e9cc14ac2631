// Package benchreference is the program bench/reference, and how it is called: it measures by
// packages bench/sockets and bench/perftest, between two processes of this program.
//
//	reference sockets server|client TEST
//	reference verbs server|client TEST
//
// TEST is a sockets.Test or a perftest.Test in JSON. The client prints its figures in JSON. The
// processes of sockets find each other by the port in TEST; those of verbs are connected by pipes,
// which are their descriptors [ReadFD] and [WriteFD].
//
// The program ibrun only starts it. What it measures with is not a part of ibrun, because only
// developers of ibrun need it.
package benchreference

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/ibrun/ibrun/bench/perftest"
	"github.com/ibrun/ibrun/bench/sockets"
	"github.com/ibrun/ibrun/internal/printable"
)

// The kinds of measurements.
const (
	socketsKind = "sockets"
	verbsKind   = "verbs"
)

// The descriptors of the pipes that connect the processes of verbs.
const (
	ReadFD  = 3
	WriteFD = 4
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// SocketsWords returns the arguments of a process with bare sockets.
func SocketsWords(role perftest.Role, t sockets.Test) []string { return words(socketsKind, role, t) }

// VerbsWords returns the arguments of a process with package verbs.
func VerbsWords(role perftest.Role, t perftest.Test) []string { return words(verbsKind, role, t) }

func words(kind string, role perftest.Role, test any) []string {
	text, err := json.Marshal(test)
	if err != nil {
		panic(err) // numbers and strings can always be encoded
	}
	return []string{kind, string(role), string(text)}
}

var errUsage = errors.New("want sockets or verbs, server or client, and a test in JSON: ibrun bench starts this program")

// Main runs the program with these arguments and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "reference: %v\n", err)
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

func run(args []string, stdout io.Writer) error {
	if len(args) != 3 {
		return errUsage
	}
	role := perftest.Role(args[1])
	if role != perftest.Server && role != perftest.Client {
		return errUsage
	}
	var figures any
	var err error
	switch args[0] {
	case socketsKind:
		var t sockets.Test
		if err := json.Unmarshal([]byte(args[2]), &t); err != nil {
			return fmt.Errorf("%s: %w: %w", args[2], errUsage, err)
		}
		if role == perftest.Server {
			return sockets.Serve(t)
		}
		figures, err = sockets.Call(t)
	case verbsKind:
		var t perftest.Test
		if err := json.Unmarshal([]byte(args[2]), &t); err != nil {
			return fmt.Errorf("%s: %w: %w", args[2], errUsage, err)
		}
		figures, err = measureVerbs(t, role)
	default:
		return errUsage
	}
	if err != nil || role == perftest.Server {
		return err
	}
	return json.NewEncoder(printable.NewJSONWriter(stdout)).Encode(figures)
}

func measureVerbs(t perftest.Test, role perftest.Role) (figure float64, err error) {
	conn := struct {
		io.Reader
		io.Writer
	}{os.NewFile(ReadFD, "from the peer"), os.NewFile(WriteFD, "to the peer")}
	// Perftest has one thread, so this process has one as well.
	runtime.GOMAXPROCS(1)
	return perftest.Run(t, role, conn)
}
