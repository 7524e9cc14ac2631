package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/mux"
)

// socket is where the agent waits for `vm exec`.
const socket = "/run/ibrun-vm.sock"

// Agent runs programs for the host, and passes on what programs here want to run elsewhere. It returns when the
// channel to the host breaks.
func Agent(config string) error {
	var c Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	local, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	host := mux.NewSession(port, mux.Guest)
	defer host.Close()
	go forward(local, host)
	hello, err := host.Open()
	if err != nil {
		return err
	}
	if err := mux.SendHello(hello); err != nil {
		return fmt.Errorf("tell the host: %w", err)
	}
	hello.Close()
	for {
		stream, err := host.Accept()
		if err != nil {
			return fmt.Errorf("channel to the host: %w", err)
		}
		go serve(stream)
	}
}

// forward passes on the requests of programs on this node.
func forward(local net.Listener, host *mux.Session) {
	for {
		conn, err := local.Accept()
		if err != nil {
			fmt.Fprintf(os.Stderr, "vm agent: %s: %v\n", socket, err)
			return
		}
		stream, err := host.Open()
		if err != nil {
			conn.Close() // who asked sees that nobody answers
			continue
		}
		go mux.Join(conn, stream)
	}
}

// serve runs one program.
func serve(stream *mux.Stream) {
	c, err := mux.Receive(stream)
	if c == nil || err != nil {
		fmt.Fprintf(os.Stderr, "vm agent: a request that cannot be read: %v\n", err)
		stream.Close()
		return
	}
	p := mux.Serve(stream)
	if err := p.Exit(run(c, p)); err != nil && !errors.Is(err, mux.ErrClosed) && !errors.Is(err, fs.ErrClosed) {
		fmt.Fprintf(os.Stderr, "vm agent: end of %s: %v\n", c.Args[0], err)
	}
}
