package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// probeTimeout is how long a host may take to respond.
const probeTimeout = 15 * time.Second

// probeScript runs on a host, with PORT replaced by the port to connect back to. The address of this host is in SSH_CONNECTION.
const probeScript = `date +%s%N; ibrun version || echo; ibrun doctor --ports 2>/dev/null || echo; ` +
	`set -- ${SSH_CONNECTION:-none} ; timeout 5 bash -c "exec 3<>/dev/tcp/$1/PORT" 2>/dev/null && echo back || echo blocked`

// peerProber probes other hosts.
type peerProber struct {
	ssh  []string // the command and its flags
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// timeout is probeTimeout, or longer in tests.
	timeout time.Duration
}

func newPeerProber() peerProber {
	return peerProber{
		ssh:  []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"},
		dial: new(net.Dialer).DialContext, timeout: probeTimeout,
	}
}

// errNoPorts says why the ports of a host are unknown.
var errNoPorts = errors.New("its ibrun printed no list of ports")

// maxProbeBytes bounds what is kept of the output of a host.
const maxProbeBytes = 256 << 10

// maxProbeLine bounds a line of it that is shown.
const maxProbeLine = 500

// boundedBuffer keeps the first maxProbeBytes that are written to it.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(text []byte) (int, error) {
	b.Buffer.Write(text[:min(len(text), maxProbeBytes-b.Len())]) // never fails
	return len(text), nil
}

// probeAll probes all hosts concurrently.
func (a peerProber) probeAll(ctx context.Context, hosts []string) ([]Peer, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("listen for hosts to connect back: %w", err)
	}
	defer l.Close() // no host connects any more
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			c.Close() // the connection itself is the result
		}
	}()
	peers := make([]Peer, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() { peers[i] = a.probe(ctx, host, port) })
	}
	wg.Wait()
	return peers, nil
}

// probe probes one host: it connects to the ssh port, and runs probeScript by ssh.
func (a peerProber) probe(ctx context.Context, host, port string) Peer {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	p := Peer{Name: host}
	_, name, found := strings.Cut(host, "@")
	if !found {
		name = host
	}
	connect, refused := a.measureConnect(ctx, name)

	var out, errs boundedBuffer
	argv := append(append([]string{}, a.ssh...), "--", host, strings.Replace(probeScript, "PORT", port, 1))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	begin := time.Now()
	err := cmd.Run()
	end := time.Now()
	if err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			last := text[strings.LastIndexByte(text, '\n')+1:] // the lines before are warnings
			err = errors.New(printableStart(strings.TrimSpace(last), maxProbeLine))
		}
		p.ConnectTime, p.ConnectErr, p.LoginErr = connect, refused, err
		return p
	}
	// If ssh works, the host is reachable, even if only by another name or port from the configuration of ssh.
	p.ConnectTime = connect
	p.LoginErr = p.parseOutput(out.String(), begin, end)
	return p
}

// measureConnect measures how long it takes to connect to the ssh port of a host.
func (a peerProber) measureConnect(ctx context.Context, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/3) // ssh needs the remaining time
	defer cancel()
	begin := time.Now()
	conn, err := a.dial(ctx, "tcp", net.JoinHostPort(name, "22"))
	if err != nil {
		return 0, err
	}
	took := time.Since(begin)
	conn.Close() // the connection itself is the result
	return took, nil
}

// parseOutput parses the output of probeScript, which ran between begin and end.
func (p *Peer) parseOutput(text string, begin, end time.Time) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 4 {
		return fmt.Errorf("printed %d lines instead of 4, beginning with %.60q: does its shell print a message at login?",
			len(lines), text)
	}
	ns, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil {
		return fmt.Errorf("invalid time %.60q", lines[0])
	}
	p.ClockError = end.Sub(begin) / 2
	p.ClockOffset = time.Unix(0, ns).Sub(begin.Add(p.ClockError))
	p.Version, p.ConnectsBack = printableStart(lines[1], maxProbeLine), lines[3] == "back"
	if p.Ports, p.PortsErr = nil, errNoPorts; lines[2] != "" {
		p.Ports, p.PortsErr = parseSummaries(lines[2])
	}
	return nil
}
