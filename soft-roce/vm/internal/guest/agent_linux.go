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

// socket is the Unix socket at which the agent accepts connections of `vm exec`.
const socket = "/run/ibrun-vm.sock"

// Agent runs programs for the host, and forwards requests of `vm exec` to the host. It returns when the channel to the host
// breaks.
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
	ready, err := host.Open()
	if err != nil {
		return err
	}
	if err := mux.SendReady(ready); err != nil {
		return fmt.Errorf("report to the host: %w", err)
	}
	ready.Close()
	for {
		stream, err := host.Accept()
		if err != nil {
			return fmt.Errorf("channel to the host: %w", err)
		}
		go serve(stream)
	}
}

// forward forwards the requests of programs on this node to the host.
func forward(local net.Listener, host *mux.Session) {
	for {
		conn, err := local.Accept()
		if err != nil {
			fmt.Fprintf(os.Stderr, "vm agent: %s: %v\n", socket, err)
			return
		}
		stream, err := host.Open()
		if err != nil {
			conn.Close() // vm exec gets an error when its connection ends
			continue
		}
		go mux.Join(conn, stream)
	}
}

// serve runs the program that a stream requests.
func serve(stream *mux.Stream) {
	c, err := mux.Receive(stream)
	if c == nil || err != nil {
		fmt.Fprintf(os.Stderr, "vm agent: invalid request: %v\n", err)
		stream.Close()
		return
	}
	p := mux.Serve(stream)
	if err := p.Exit(run(c, p)); err != nil && !errors.Is(err, mux.ErrClosed) && !errors.Is(err, fs.ErrClosed) {
		fmt.Fprintf(os.Stderr, "vm agent: end of %s: %v\n", c.Args[0], err)
	}
}
