package exporter

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ask sends a request with this header Host, and returns the status.
func ask(t *testing.T, e *Exporter, host string) int {
	t.Helper()
	network, address := e.listener.Addr().Network(), e.listener.Addr().String()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	r, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != http.StatusOK && strings.Contains(string(text), "j1") {
		t.Errorf("a request for %s was told %s", host, text)
	}
	return r.StatusCode
}

// Requests for addresses and for names of this host are answered, and those for other names are not, whoever sends them: a web
// page cannot read the metrics through the browser of a user, by a name that leads here. Such requests are not scrapes, and the
// names are reported.
func TestForeignHost(t *testing.T) {
	self, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var problems reports
	n := idle()
	n.Name = "Node-7"
	e, err := Start(Options{Address: "localhost:0", Hosts: []string{"metrics.example."}}, n, problems.add)
	if err != nil {
		t.Fatal(err)
	}
	foreign := []string{"evil.example", "evil.example:9464", self + ".evil.example", "localhost.evil.example",
		"127.0.0.1.evil.example", "[evil.example]", ":9464", "127.0.0.1:9464:9464"}
	for _, host := range foreign {
		if status := ask(t, e, host); status != http.StatusMisdirectedRequest {
			t.Errorf("%q: status %d", host, status)
		}
	}
	if e.LingerLimit() != 0 {
		t.Error("foreign requests count as scrapes")
	}
	for _, host := range []string{"localhost", "LocalHost:9464", "localhost.", self, strings.ToUpper(self) + ":1", "node-7:9464",
		"127.0.0.1", "10.1.2.3:9464", "[::1]:9464", "[fe80::1]", "metrics.example", "Metrics.Example:80"} {
		if status := ask(t, e, host); status != http.StatusOK {
			t.Errorf("%q: status %d", host, status)
		}
	}
	ask(t, e, "ninth.example")
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	problems.mu.Lock()
	defer problems.mu.Unlock()
	if len(problems.all) != len(foreign) || len(foreign) != maxForeign {
		t.Errorf("%d names are reported: %q", len(problems.all), problems.all)
	}
	for i, text := range problems.all {
		last := strings.HasSuffix(text, "; further names are not reported")
		if !strings.Contains(text, fmt.Sprintf("%q", foreign[i])) || last != (i == maxForeign-1) {
			t.Errorf("%d: %s", i, text)
		}
	}
	socket := start(t, Options{Address: filepath.Join(t.TempDir(), "s")}, idle())
	if status := ask(t, socket, "evil.example"); status != http.StatusOK { // no browser connects to a Unix socket
		t.Errorf("at a Unix socket: status %d", status)
	}
}

// The name in the address is one of this host.
func TestHostOfAddress(t *testing.T) {
	for address, host := range map[string]string{"node3.cluster:9464": "node3.cluster", ":9464": "localhost", "9464": "localhost",
		"[::1]:9464": "[::1]:9464"} {
		if !newHostNames(address, "n", nil).allow(host) {
			t.Errorf("with --metrics %s a request for %s is refused", address, host)
		}
	}
	if newHostNames(":9464", "", []string{"", ".example"}).allow(":80") || newHostNames("", "", []string{".a"}).allow(".a") {
		t.Error("an empty name is allowed")
	}
	if !newHostNames("9464", "n", nil).allow("") {
		t.Error("a request without a name is refused")
	}
}

// In a domain that the user names, this host has its own short names and no others.
func TestDomains(t *testing.T) {
	names := newHostNames(":9464", "node3.cluster", []string{".Example.org", "metrics.example.org"})
	for host, allowed := range map[string]bool{"node3.example.org:9464": true, "Node3.example.org.": true, "node3": true,
		"node3.cluster": true, "metrics.example.org": true, "127.0.0.1.": true, "evil.example.org": false, "example.org": false,
		".example.org": false, "evil.node3.example.org": false, "node3.cluster.example.org": false} {
		if names.allow(host) != allowed {
			t.Errorf("%s is answered: %v", host, !allowed)
		}
	}
}

// keptConn is a connection that remembers whether it was closed.
type keptConn struct {
	net.Conn
	closed bool
}

func (c *keptConn) Close() error         { c.closed = true; return nil }
func (c *keptConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// A connection whose request is refused is closed at once, also if the rest of the request has not arrived: nothing counts it any
// more.
func TestRefusedIsClosed(t *testing.T) {
	for status, change := range map[int]func(*gate){
		http.StatusMisdirectedRequest: func(g *gate) { g.allow = func(*http.Request) bool { return false } },
		http.StatusServiceUnavailable: func(g *gate) {
			for range g.short.Limit {
				g.admit(&g.short.Waiting, &conn{Conn: new(keptConn), gate: g})
			}
		},
	} {
		g := newGate(nil)
		g.onLimit = func() {}
		change(g)
		kept := new(keptConn)
		c := &conn{Conn: kept, gate: g}
		g.admit(&g.waiting, c)
		r := httptest.NewRequestWithContext(remember(t.Context(), c), http.MethodPost, metricsPath, endless{})
		w := recorder{httptest.NewRecorder()}
		g.limit(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != status || !w.Flushed || !kept.closed {
			t.Errorf("status %d, want %d; sent: %v; closed: %v", w.Code, status, w.Flushed, kept.closed)
		}
	}
}

// recorder is a response that may have a deadline.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

// endless is the body of a request that does not arrive.
type endless struct{}

func (endless) Read([]byte) (int, error) { select {} }
