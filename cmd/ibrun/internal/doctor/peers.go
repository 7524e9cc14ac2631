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

// askTime is how long a host may take to answer.
const askTime = 15 * time.Second

// script runs on a host, with the port to connect back to as its argument. ssh tells there which address this host has.
const script = `date +%s%N; ibrun version || echo; set -- ${SSH_CONNECTION:-none} ` +
	`; timeout 5 bash -c "exec 3<>/dev/tcp/$1/PORT" 2>/dev/null && echo back || echo barred`

// asker asks other hosts.
type asker struct {
	ssh  []string // the command and its flags
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func newAsker() asker {
	return asker{
		ssh:  []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"},
		dial: new(net.Dialer).DialContext,
	}
}

// ask asks all hosts at the same time.
func (a asker) ask(ctx context.Context, hosts []string) ([]Peer, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("listen for hosts to connect back: %w", err)
	}
	defer l.Close() // nobody is on the line any more
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
			c.Close() // having come is all
		}
	}()
	peers := make([]Peer, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() { peers[i] = a.one(ctx, host, port) })
	}
	wg.Wait()
	return peers, nil
}

// one asks one host: whether it answers, and then whatever can be had by one login.
func (a asker) one(ctx context.Context, host, port string) Peer {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	p := Peer{Name: host}
	_, name, found := strings.Cut(host, "@")
	if !found {
		name = host
	}
	connect, refused := a.connect(ctx, name)

	var out, errs bytes.Buffer
	argv := append(append([]string{}, a.ssh...), "--", host, strings.Replace(script, "PORT", port, 1))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	begin := time.Now()
	err := cmd.Run()
	end := time.Now()
	if err != nil {
		if said := strings.TrimSpace(errs.String()); said != "" {
			err = errors.New(strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:])) // before it there are warnings
		}
		p.Connect, p.Refused, p.Login = connect, refused, err
		return p
	}
	// What ssh reaches is there, be it by another name or port that its configuration knows.
	p.Connect = connect
	p.Login = p.answer(out.String(), begin, end)
	return p
}

// connect measures how long it takes to connect to the ssh port of a host.
func (a asker) connect(ctx context.Context, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime/3) // ssh needs the rest
	defer cancel()
	begin := time.Now()
	conn, err := a.dial(ctx, "tcp", net.JoinHostPort(name, "22"))
	if err != nil {
		return 0, err
	}
	took := time.Since(begin)
	conn.Close() // having connected is all
	return took, nil
}

// answer takes apart what the script printed between two moments.
func (p *Peer) answer(text string, begin, end time.Time) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 3 {
		return fmt.Errorf("printed %d lines instead of 3, begins %.60q: does its shell greet with a message?", len(lines), text)
	}
	ns, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil {
		return fmt.Errorf("its clock says %.60q", lines[0])
	}
	p.Round = end.Sub(begin) / 2
	p.Skew = time.Unix(0, ns).Sub(begin.Add(p.Round))
	p.Binary, p.Back = lines[1], lines[2] == "back"
	return nil
}
