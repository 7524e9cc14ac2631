package exporter

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ibrun/ibrun/internal/admission"
)

// gate is a listener that limits the number of connections, and of scrapes, of each source. A connection waits until its request
// has arrived. Others then displace it only while it is sent a response that its client does not read. A connection is for one
// request.
type gate struct {
	net.Listener
	onLimit  func()                     // called when a connection or a scrape is refused or ended
	onFailed func(err error)            // called when a response cannot be sent
	timeout  time.Duration              // for sending a response
	allow    func(r *http.Request) bool // whether a request is answered; nil: all are
	// onScrape makes a response with metrics by calling render, once or twice. sent is called when it was sent.
	onScrape func(r *http.Request, render func()) (sent func())

	mu      sync.Mutex
	waiting admission.Waiting[*conn] // for their request
	short   scrapes
	long    scrapes // with the series of each rank
}

// scrapes are the requests of a kind that are being answered. The mutex of the gate guards the set.
type scrapes struct {
	admission.Waiting[*conn]
	rendering sync.Mutex // held while a response is made, so that these scrapes take one processor at most
}

// conn is a connection of a gate.
type conn struct {
	net.Conn
	gate *gate
	once sync.Once
}

// connKey is the key of the *conn in the context of a request.
type connKey struct{}

func newGate(l net.Listener) *gate {
	g := &gate{Listener: l, waiting: admission.Waiting[*conn]{Limit: admission.Limit(maxConns), MinAge: minConnAge}}
	g.short.Limit, g.short.MinAge = admission.Limit(maxScrapes), minScrapeAge
	g.long.Limit, g.long.MinAge = maxLongScrapes, minScrapeAge
	return g
}

// Accept returns the next connection for which there is a place.
func (g *gate) Accept() (net.Conn, error) {
	for {
		raw, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, gate: g}
		if g.admit(&g.waiting, c) {
			return c, nil
		}
		c.Close()
	}
}

// admit adds a connection to a set, and closes another one if there are too many. It reports false if there is no place.
func (g *gate) admit(set *admission.Waiting[*conn], c *conn) bool {
	g.mu.Lock()
	drop, full := set.Add(c, admission.AddrOf(c.Conn), time.Now())
	g.mu.Unlock()
	if full {
		g.onLimit()
		if drop == c {
			return false
		}
		drop.Close()
	}
	return true
}

// Close closes a connection and makes room for another one.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		c.gate.mu.Lock()
		c.gate.waiting.Remove(c)
		c.gate.short.Remove(c)
		c.gate.long.Remove(c)
		c.gate.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}

// refuse answers a request, and closes its connection. That is in no set any more, and the server would wait for the rest of the
// request.
func (c *conn) refuse(w http.ResponseWriter, why string, status int) {
	whole := response{status: status}
	fmt.Fprintln(&whole.body, why)
	if err := c.gate.send(w, &whole); err != nil {
		c.gate.onFailed(err)
	}
	c.Close()
}

// remember puts a connection into the context of its requests.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// limit returns a handler that limits the number of requests that handler serves. The whole response is made before any of it is
// sent: a client that reads slowly keeps a copy of it, and nothing that another scrape needs.
func (g *gate) limit(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*conn)
		g.mu.Lock()
		waited := g.waiting.Remove(c)
		g.mu.Unlock()
		if !waited { // it is being closed
			return
		}
		if g.allow != nil && !g.allow(r) {
			c.refuse(w, "ibrun does not know this name of the host; --metrics-hosts NAME adds it", http.StatusMisdirectedRequest)
			return
		}
		kind := &g.short
		if r.URL.RawQuery != "" {
			kind = &g.long
		}
		if !g.admit(&kind.Waiting, c) {
			c.refuse(w, "too many scrapes at a time", http.StatusServiceUnavailable)
			return
		}
		whole, sent := response{header: w.Header()}, func() {}
		render := func() { kind.render(handler, &whole, r) }
		if r.URL.Path == metricsPath {
			sent = g.onScrape(r, render)
		} else {
			render()
		}
		if err := g.send(w, &whole); err != nil {
			g.onFailed(err)
		} else if whole.status == http.StatusOK {
			sent()
		}
	})
}

// send passes a whole response to the kernel.
func (g *gate) send(w http.ResponseWriter, whole *response) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(g.timeout)); err != nil {
		return err
	}
	w.Header().Set("Content-Length", strconv.Itoa(whole.body.Len()))
	w.WriteHeader(whole.status)
	if _, err := w.Write(whole.body.Bytes()); err != nil {
		return err
	}
	return c.Flush()
}

// render makes a response, in place of one that was made before, unless the client has closed its connection meanwhile.
func (s *scrapes) render(handler http.Handler, whole *response, r *http.Request) {
	s.rendering.Lock()
	defer s.rendering.Unlock()
	whole.status = http.StatusOK
	whole.body.Reset()
	if r.Context().Err() == nil {
		handler.ServeHTTP(whole, r)
	}
}

// response is a response that is not sent yet.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *response) WriteHeader(status int)      { r.status = status }
