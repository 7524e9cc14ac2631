package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/auth"
)

// joinTimeout is how long the nodes wait for each other unless --join-timeout says otherwise.
const joinTimeout = time.Minute

// meeting is what the nodes of a job have agreed on, and the connections between them. A job on one node has met as soon
// as it is asked.
type meeting struct {
	welcome welcome
	secret  auth.Key
	master  string // address of node 0

	guests  []*guest   // on node 0, by node; the first is nil
	heard   chan heard // what they say
	closing sync.WaitGroup

	zero   *control.Conn // on the other nodes
	orders chan *order   // what it says; closed when it says no more
	lost   error         // and why, set before
}

// guest is another node as node 0 sees it.
type guest struct {
	*join
	conn *control.Conn
}

// heard is what another node has said, or why it says no more.
type heard struct {
	conn  *control.Conn
	event *event
	err   error
}

// meet waits until all nodes are there, of which this has that name.
func meet(name string, o *cli.Options, s Streams) (*meeting, error) {
	m := &meeting{master: "127.0.0.1"}
	if o.Nodes <= 1 {
		m.welcome.JobID, m.welcome.Names = newJobID(), []string{name}
		rand.Read(m.secret[:])
		addr, err := freeAddr(m.master)
		if err == nil {
			m.welcome.MasterPort = addr.Port
		}
		return m, err
	}
	secret, err := auth.ReadSecret(o.SecretFile)
	if err != nil {
		return nil, fail(codeUsage, "%w", err)
	}
	ctx, stop := interruptible("waiting for the other nodes")
	defer stop()
	if o.Node == 0 {
		err = m.gather(ctx, newJoin(name, o), secret, o, s)
	} else {
		err = m.join(ctx, newJoin(name, o), secret, o, s)
	}
	if err == nil {
		m.secret, err = secret.Derive(m.welcome.Salt, "job "+m.welcome.JobID)
	}
	return m, err
}

func newJobID() string { return strings.ToLower(rand.Text()[:10]) }

// bounded is a context that ends when the nodes have waited for each other for long enough.
func bounded(ctx context.Context, o *cli.Options) (context.Context, context.CancelFunc) {
	limit := o.JoinTimeout
	if limit == 0 {
		limit = joinTimeout
	}
	return context.WithTimeoutCause(ctx, limit, fail(codeFailed, "within %v (--join-timeout)", limit))
}

// interruptible is a context that ends when the user wants the job to end.
func interruptible(what string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	notify(signals, askSignals())
	go func() {
		if sig, ok := <-signals; ok {
			cancel(fail(codeSignal+int(sig.(syscall.Signal)), "%s was stopped: %v", what, sig))
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
	}
}

// gather waits on node 0 until all others are there, and welcomes them. Who comes without the secret changes nothing.
func (m *meeting) gather(ctx context.Context, ours *join, secret auth.Secret, o *cli.Options, s Streams) error {
	l, err := control.Listen(o.Rendezvous, secret)
	if err != nil {
		return fmt.Errorf("%w (--rendezvous names an address of node 0)", err)
	}
	ctx, cancel := bounded(ctx, o)
	defer cancel()
	m.guests, m.heard = make([]*guest, o.Nodes), make(chan heard)
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			go m.listen(c)
		}
	}()
	for missing := o.Nodes - 1; missing > 0 && err == nil; {
		select {
		case h := <-m.heard:
			var change int
			change, err = m.admit(h, ours, o, s)
			missing -= change
		case <-ctx.Done():
			err = m.missing(context.Cause(ctx), l.Refused())
		}
	}
	err = errors.Join(err, l.Close())
	if err != nil {
		m.dismiss(err)
		return err
	}
	m.welcome = welcome{JobID: newJobID(), Names: []string{ours.Name}, Salt: make([]byte, 32), Report: o.Report}
	for _, g := range m.guests[1:] {
		m.welcome.Names = append(m.welcome.Names, g.Name)
	}
	rand.Read(m.welcome.Salt)
	addr, err := freeAddr("")
	if err != nil {
		m.dismiss(err)
		return err
	}
	m.welcome.MasterPort = addr.Port
	m.master = hostOf(m.guests[1].conn.Local())
	m.tell(&order{Welcome: &m.welcome})
	return nil
}

// listen takes in what another node says.
func (m *meeting) listen(c *control.Conn) {
	for {
		text, err := c.Recv()
		h := heard{conn: c, err: err}
		if err == nil {
			h.event, h.err = decodeEvent(text)
		}
		m.heard <- h
		if h.err != nil {
			c.Close()
			return
		}
	}
}

// admit lets a node take part. It returns how many more are there now; an error ends the job.
func (m *meeting) admit(h heard, ours *join, o *cli.Options, s Streams) (change int, err error) {
	node := h.conn.Node()
	switch {
	case h.err != nil:
		if node < o.Nodes && m.guests[node] != nil && m.guests[node].conn == h.conn {
			m.guests[node] = nil
			s.say("node %d has left again: %v", node, h.err)
			return -1, nil
		}
		return 0, nil
	case h.event.Kind != evJoin || h.event.Join == nil:
		go h.conn.Close()
		return 0, nil
	}
	j := h.event.Join
	if err := ours.check(o.Nodes, node, h.conn.Nodes(), j); err != nil {
		m.refuse(h.conn, err)
		return 0, err
	}
	if there := m.guests[node]; there != nil {
		m.refuse(h.conn, fail(codeUsage, "there is a node %d already, %s at %v", node, there.Name, there.conn.Remote()))
		return 0, nil
	}
	m.guests[node] = &guest{j, h.conn}
	if o.Verbose {
		s.say("node %d has joined: %s at %v", node, j.Name, h.conn.Remote())
	}
	return 1, nil
}

// refuse tells a node why it may not take part.
func (m *meeting) refuse(c *control.Conn, why error) {
	pack(&order{Verdict: &verdict{Code: codeOf(why), Lines: []string{why.Error()}}})(c)
	m.closing.Go(c.Close)
}

// missing says who did not come, and why the wait has ended.
func (m *meeting) missing(why error, refused string) error {
	var nodes []int
	for node := 1; node < len(m.guests); node++ {
		if m.guests[node] == nil {
			nodes = append(nodes, node)
		}
	}
	if codeOf(why) != codeFailed {
		return why // a signal
	}
	who := fmt.Sprintf("nodes %s of %d", hw.FormatList(nodes), len(m.guests))
	if len(nodes) == 1 {
		who = fmt.Sprintf("node %d of %d", nodes[0], len(m.guests))
	}
	if refused != "" {
		refused = "; " + refused
	}
	return fail(codeFailed, "%s did not join %w%s", who, why, refused)
}

// join makes this node take part, and waits until all others do.
func (m *meeting) join(ctx context.Context, ours *join, secret auth.Secret, o *cli.Options, s Streams) error {
	patient, cancel := bounded(ctx, o)
	defer cancel()
	c, err := control.Dial(patient, o.Rendezvous, secret, o.Node, o.Nodes)
	if err != nil && codeOf(err) == codeFailed && patient.Err() != nil {
		err = fmt.Errorf("node 0 at %s did not answer %w", o.Rendezvous, err)
	}
	if err != nil {
		return err
	}
	if o.Verbose {
		s.say("this is node %d of %d, and node 0 is at %v", o.Node, o.Nodes, c.Remote())
	}
	m.zero, m.orders, m.master = c, make(chan *order), hostOf(c.Remote())
	go m.follow()
	m.report(&event{Kind: evJoin, Join: ours})
	select {
	case first, ok := <-m.orders:
		switch {
		case !ok:
			err = fmt.Errorf("node 0 at %v is lost: %w", c.Remote(), m.lost)
		case first.Verdict != nil:
			c.Close()
			err = fail(first.Verdict.Code, "%s", strings.Join(first.Verdict.Lines, "; "))
		case first.Welcome == nil || len(first.Welcome.Names) != o.Nodes:
			c.Close()
			err = fmt.Errorf("node 0 at %v does not welcome this node", c.Remote())
		default:
			m.welcome = *first.Welcome
		}
	case <-ctx.Done():
		c.Close()
		err = context.Cause(ctx)
	}
	return err
}

// follow takes in what node 0 says.
func (m *meeting) follow() {
	for {
		text, err := m.zero.Recv()
		var o *order
		if err == nil {
			o, err = decodeOrder(text)
		}
		if err != nil {
			m.lost = err
			close(m.orders)
			return
		}
		m.orders <- o
	}
}

// report tells node 0 something, at a time by its clock.
func (m *meeting) report(e *event) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if ahead, ok := m.zero.Clock(); ok {
		e.Time += int64(ahead)
	}
	if text, err := json.Marshal(e); err == nil { // events can always be written down
		_ = m.zero.Send(text) // parcels and texts are bounded, far below the limit
	}
}

// tell tells all other nodes something.
func (m *meeting) tell(o *order) {
	send := pack(o)
	for _, g := range m.guests {
		if g != nil {
			send(g.conn)
		}
	}
}

// pack writes an order down once, to be sent to several nodes.
func pack(o *order) (send func(*control.Conn)) {
	text, err := json.Marshal(o)
	return func(c *control.Conn) {
		if err == nil { // orders can always be written down
			_ = c.Send(text) // parcels and texts are bounded, far below the limit
		}
	}
}

// dismiss ends a job that fails on this node before its ranks were to be watched.
func (m *meeting) dismiss(why error) {
	if m.zero != nil {
		m.report(&event{Kind: evFault, Code: codeOf(why), Text: why.Error()})
		m.zero.Close()
		return
	}
	m.end(&verdict{Code: codeOf(why), Lines: []string{why.Error()}})
}

// end tells the other nodes the verdict, and waits until they have it, and those that were refused know why.
func (m *meeting) end(v *verdict) {
	m.tell(&order{Verdict: v})
	for _, g := range m.guests {
		if g != nil {
			m.closing.Go(g.conn.Close)
		}
	}
	m.closing.Wait()
}

// hostOf returns an address without its port.
func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.String()
}

// freeAddr returns an address of this host, on all of its interfaces if host is empty, that nobody listens on.
func freeAddr(host string) (*net.TCPAddr, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fail(codeFailed, "find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr), nil
}
