package exporter

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/prom"
)

// idle returns a node with one rank that makes no calls.
func idle() *prom.Node {
	return &prom.Node{Job: "j1", Name: "n0", Ranks: func() []prom.Rank { return []prom.Rank{{Rank: 3}} }}
}

func start(t *testing.T, o Options, n *prom.Node) *Exporter {
	t.Helper()
	e, err := Start(o, n, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// get scrapes once, over a new connection.
func get(t *testing.T, e *Exporter) string {
	t.Helper()
	url, transport := e.URL(), &http.Transport{DisableKeepAlives: true}
	if path, unix := strings.CutPrefix(url, "unix:"); unix {
		url = "http://unix/metrics"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	r, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	return string(text)
}

const silentRank = `ibrun_ranks{ibrun_job="j1",ibrun_node="n0",state="silent"} 1`

func TestAddresses(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics.sock")
	for address, want := range map[string]string{
		"0": "http://127.0.0.1:", ":0": "http://127.0.0.1:", "127.0.0.1:0": "http://127.0.0.1:", "[::]:0": "http://[::]:",
		socket: "unix:" + socket,
	} {
		e := start(t, Options{Address: address}, idle())
		if !strings.HasPrefix(e.URL(), want) || strings.HasSuffix(e.URL(), ":0/metrics") {
			t.Errorf("%s is served at %s, want %s", address, e.URL(), want)
		}
		if text := get(t, e); !strings.Contains(text, silentRank) {
			t.Errorf("%s: %s", address, text)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestInUse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics.sock")
	for _, address := range []string{"127.0.0.1:0", socket} {
		e := start(t, Options{Address: address}, idle())
		if _, err := Start(Options{Address: e.address}, idle(), nil); err == nil {
			t.Errorf("two exporters listen at %s", e.address)
		}
	}
	// A socket file that a killed ibrun did not remove.
	left := filepath.Join(t.TempDir(), "left.sock")
	l, err := net.Listen("unix", left)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	start(t, Options{Address: left}, idle())
}

func TestDiscovery(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ibrun.json")
	e, err := Start(Options{Address: ":0", DiscoveryFile: file}, idle(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Targets []string
		Labels  map[string]string // Prometheus would rename labels of the series
	}
	if err := json.Unmarshal(text, &groups); err != nil || len(groups) != 1 || groups[0].Targets[0] != e.address ||
		groups[0].Labels != nil {
		t.Errorf("%v: %s", err, text)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(names) > 0 {
		t.Errorf("%v were left", names)
	}
	for _, o := range []Options{{Address: ":0", DiscoveryFile: filepath.Join(file, "no", "directory")},
		{Address: filepath.Join(t.TempDir(), "s"), DiscoveryFile: file}} {
		if _, err := Start(o, idle(), nil); err == nil {
			t.Errorf("%+v returned no error", o)
		}
	}
}

// TestReachableName: the name of a node is used if it leads to this host, and not to another one or to the loopback address.
func TestReachableName(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"local": "127.0.0.1", "other": "192.0.2.1"}
	wants := map[string]string{"local": own, "other": own, "unknown": own, "": own, own: own}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() && p.Addr().Is4() {
			known["me"], wants["me"] = p.Addr().String(), "me"
		}
	}
	for node, want := range wants {
		got, err := reachableName(node, func(_ context.Context, name string) ([]netip.Addr, error) {
			a, err := netip.ParseAddr(known[name])
			return []netip.Addr{a}, err
		})
		if err != nil || got != want {
			t.Errorf("node %q: %q, %v; want %q", node, got, err, want)
		}
	}
}

// busy returns a node whose ranks have called every operation.
func busy(t *testing.T, ranks int) *prom.Node {
	t.Helper()
	full := make([]prom.Rank, ranks)
	for i := range full {
		memory := make([]byte, perf.PageBytes)
		r, err := perf.NewRecorder(memory, perf.Identity{Rank: i, Size: len(full)}, perf.All)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range perf.Ops() {
			r.End(op, 8, r.Begin(op, 8))
		}
		page, err := perf.Open(memory)
		if err != nil {
			t.Fatal(err)
		}
		full[i].Rank = i
		if full[i].Snapshot, err = page.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	n := idle()
	n.Ranks = func() []prom.Rank { return full }
	return n
}

// reports collects the reported problems.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (l *reports) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
}

// expectOne waits for a report, closes e, and checks that there was exactly one report, and that it contains text.
func (l *reports) expectOne(t *testing.T, e *Exporter, text string) {
	t.Helper()
	waittest.Until(t, "a report", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.all) > 0
	})
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	if err := waittest.Receive(t, "Close returns, although clients do not read", closed); err != nil {
		t.Error(err)
	}
	if len(l.all) != 1 || !strings.Contains(l.all[0], text) {
		t.Errorf("reported %q, want one line with %q", l.all, text)
	}
}

// flood makes n connections from an address and sends nothing over them. It keeps some of them open.
func flood(t *testing.T, e *Exporter, from net.IP, n int) {
	t.Helper()
	// kept is how many connections this side keeps open: file descriptors are limited.
	const kept = 500
	stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	var open []net.Conn
	for range n {
		c, err := stranger.Dial("tcp", e.address)
		if err != nil {
			t.Fatal(err)
		}
		if open = append(open, c); len(open) > kept {
			open[0].Close()
			open = open[1:]
		}
	}
	t.Cleanup(func() {
		for _, c := range open {
			c.Close()
		}
	})
}

// TestSilentStrangers: unauthenticated connections that send nothing neither end a scrape nor prevent one, and are reported once.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	var problems reports
	e, err := Start(Options{Address: ":0", writeTimeout: never}, busy(t, 64), problems.add)
	if err != nil {
		t.Fatal(err)
	}
	slow := request(t, e) // does not read all before the strangers have come
	head := make([]byte, 12)
	if _, err := io.ReadFull(slow, head); err != nil || string(head) != "HTTP/1.1 200" {
		t.Fatalf("%q, %v", head, err)
	}
	flood(t, e, net.IPv4(127, 0, 0, 2), 3000)
	if text := get(t, e); !strings.Contains(text, `ibrun_ranks{ibrun_job="j1",ibrun_node="n0",state="running"} 64`) {
		t.Error("the response lacks the ranks")
	}
	if rest, err := io.ReadAll(slow); err != nil || len(rest) < 5<<20 {
		t.Errorf("the scrape from before has %d bytes, %v", len(rest), err)
	}
	problems.expectOne(t, e, "too many connections")
}

// never is a timeout that no test reaches.
const never = 24 * time.Hour

// request requests a long response.
func request(t *testing.T, e *Exporter) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte("GET /metrics?ranks=each HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	return c
}

// unread makes clients request long responses without reading them.
func unread(t *testing.T, e *Exporter) {
	t.Helper()
	for range maxLongScrapes {
		request(t, e)
	}
}

// TestResponsesUnread: scrapes that never read their responses do not delay Close, and are reported once.
func TestResponsesUnread(t *testing.T) {
	t.Parallel()
	var problems reports
	e, err := Start(Options{Address: ":0", writeTimeout: 50 * time.Millisecond}, busy(t, 64), problems.add)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		request(t, e)
	}
	problems.expectOne(t, e, "does not read its response")
}

// TestOthersServed: while some clients do not read, others get their responses, also if there are too many of them. An address
// with too many long scrapes does not prevent those of another one.
func TestOthersServed(t *testing.T) {
	t.Parallel()
	var problems reports
	e, err := Start(Options{Address: "127.0.0.1:0", writeTimeout: never}, busy(t, 64), problems.add)
	if err != nil {
		t.Fatal(err)
	}
	unread(t, e)
	if text := get(t, e); !strings.Contains(text, `ibrun_ranks{ibrun_job="j1",ibrun_node="n0",state="running"} 64`) {
		t.Error("the response lacks the ranks")
	}
	other := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}
	r, err := (&http.Client{Transport: other}).Get(e.URL() + "?ranks=each")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if n, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK || n < 5<<20 {
		t.Errorf("%s, %d bytes, %v", r.Status, n, err)
	}
	problems.expectOne(t, e, "too many connections")
}

// TestReportedOnce: a problem of every scrape is reported once.
func TestReportedOnce(t *testing.T) {
	n := idle()
	n.Ranks = func() []prom.Rank { return []prom.Rank{{Rank: 1}, {Rank: 1}} }
	n.Root = badRoot{}
	var problems []string
	e, err := Start(Options{Address: ":0"}, n, func(s string) { problems = append(problems, s) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := http.Get(e.URL() + "?ranks=each") // two ranks with the same number are an error
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if len(problems) != 1 {
		t.Errorf("reported %q, want one line", problems)
	}
}

// badRoot is a machine that cannot be read.
type badRoot struct{}

func (badRoot) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
