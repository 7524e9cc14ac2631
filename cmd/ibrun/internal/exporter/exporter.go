// Package exporter serves the metrics of a node's ranks for Prometheus while the job runs, and until it was scraped after that:
//
//	e, err := exporter.Start(exporter.Options{Address: ":9464"}, node, report)
//	report("metrics are at " + e.URL())
//	...
//	stopped := e.Linger(signals, begin) // after the end of the job, when node.ExitCode returns its exit code
//	err = e.Close()
//
// A client can disturb neither the job nor other clients: the number of connections and the time of scrapes are limited.
package exporter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/outfile"
	"github.com/ibrun/ibrun/perf/prom"
)

// Options are the addresses of the server.
type Options struct {
	// Address is host:port, a port alone (on the loopback address), or the path of a Unix socket.
	Address string
	// DiscoveryFile is the file_sd file to write for Prometheus, or empty.
	DiscoveryFile string
	// Hosts are names of this host, in addition to those that it knows, for which requests are answered. One that begins with a dot
	// is a domain in which this host has its short name.
	Hosts []string
	// Linger is how long Linger waits at most for a scrape. Nil: as long as the intervals of earlier scrapes say.
	Linger *time.Duration

	writeTimeout time.Duration // how long a client may take to read a response; 0: defaultWriteTimeout
}

// Exporter is the server of one node.
type Exporter struct {
	server        *http.Server
	listener      net.Listener
	address       string // the requested address, with the port in use
	discoveryFile string // the discovery file that Close removes; empty if none was written

	scrapers *scrapers
	linger   *time.Duration
	exitCode func() (code int, ended bool) // prom.Node.ExitCode
}

// Limits for clients.
const (
	// maxConns is the maximum number of connections that have sent no whole request. See package admission for those beyond it.
	maxConns = 512
	// minConnAge is how long a connection may take for its request at least.
	minConnAge = 200 * time.Millisecond
	// maxScrapes is the maximum number of requests that are answered at the same time.
	maxScrapes = 64
	// maxLongScrapes is the same for those with the series of each rank, which may take 160 KB of memory for each rank.
	maxLongScrapes = 8
	// minScrapeAge is how long a client may take to read its response at least.
	minScrapeAge        = time.Second
	headerTimeout       = 5 * time.Second
	defaultWriteTimeout = 10 * time.Second
	maxHeader           = 16 << 10
	// lookupTimeout is how long the start may wait for DNS.
	lookupTimeout = 2 * time.Second
)

// metricsPath is the path of the metrics.
const metricsPath = "/metrics"

// Start listens, and serves metrics until Close. Problems while serving are passed to report, the first of each kind only. If
// the address is in use, Start returns the error of package net.
func Start(o Options, n *prom.Node, report func(string)) (*Exporter, error) {
	l, err := listen(o.Address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	problems := &problemReporter{report: report}
	mux.Handle("GET "+metricsPath, n.Handler(problems))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "Job %s on %s: /metrics has the sums over the node's ranks, /metrics?ranks=each has each rank.\n", n.Job, n.Name)
	})
	g := newGate(l)
	g.timeout, g.onLimit = cmp.Or(o.writeTimeout, defaultWriteTimeout), problems.tooMany
	g.onFailed = func(err error) { problems.Println(err) }
	if l.Addr().Network() == "tcp" { // no browser connects to a Unix socket
		hosts := newHostNames(o.Address, n.Name, o.Hosts)
		g.allow = func(r *http.Request) bool { return hosts.allow(r.Host) || problems.refuse(r) }
	}
	e := &Exporter{scrapers: newScrapers(), linger: o.Linger, exitCode: n.ExitCode, listener: l, address: l.Addr().String()}
	e.server = &http.Server{Handler: g.limit(mux), ConnContext: remember, ReadTimeout: headerTimeout,
		WriteTimeout: defaultWriteTimeout, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0)}
	e.server.SetKeepAlivesEnabled(false)
	g.onScrape = e.onScrape
	if o.DiscoveryFile != "" {
		if err := e.writeDiscoveryFile(o.DiscoveryFile, n.Name); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	go func() {
		if err := e.server.Serve(g); !errors.Is(err, http.ErrServerClosed) {
			problems.Println(err.Error())
		}
	}()
	return e, nil
}

// listen listens at an address in the syntax of Options.Address.
func listen(address string) (net.Listener, error) {
	if strings.Contains(address, "/") {
		return listenUnix(address)
	}
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	return net.Listen("tcp", address)
}

// listenUnix creates a socket that only its owner may use. It replaces a socket that has no listener any more.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("listen at %s: another process listens there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return privateUnix.Listen(context.Background(), "unix", path)
}

// URL returns the address to scrape.
func (e *Exporter) URL() string {
	if e.listener.Addr().Network() == "unix" {
		return "unix:" + e.address
	}
	return "http://" + e.address + "/metrics"
}

// OnLoopback reports whether the server listens at a loopback address, which only this host reaches.
func (e *Exporter) OnLoopback() bool {
	a, ok := e.listener.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// Files returns the files that Close removes.
func (e *Exporter) Files() (files []string) {
	if e.listener.Addr().Network() == "unix" {
		files = append(files, e.address)
	}
	if e.discoveryFile != "" {
		files = append(files, e.discoveryFile)
	}
	return files
}

// writeDiscoveryFile writes the discovery file atomically. node is the name of this host in the job.
func (e *Exporter) writeDiscoveryFile(file, node string) error {
	target := e.address
	if e.listener.Addr().Network() == "unix" {
		return fmt.Errorf("write %s: Prometheus does not scrape Unix sockets; give --metrics a host and a port", file)
	}
	if a := e.listener.Addr().(*net.TCPAddr); a.IP.IsUnspecified() {
		name, err := reachableName(node, lookupHost)
		if err != nil {
			return err
		}
		target = net.JoinHostPort(name, fmt.Sprint(a.Port))
	}
	type group struct { // no labels: every series has the names of the job and the node
		Targets []string `json:"targets"`
	}
	text, err := json.MarshalIndent([]group{{[]string{target}}}, "", "  ")
	if err != nil {
		return err
	}
	err = outfile.Write(file, func(f *os.File) error {
		_, err := f.Write(append(text, '\n'))
		return err
	})
	if err == nil {
		e.discoveryFile = file
	}
	return err
}

// reachableName returns the name by which others reach this host. It is the name of the node in the job, which may come from a
// list of hosts, if lookup finds an address of this host for it, other than a loopback address. Otherwise it is the name that the
// kernel has.
func reachableName(node string, lookup func(context.Context, string) ([]netip.Addr, error)) (string, error) {
	name, err := os.Hostname()
	if node == "" || node == name {
		return name, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addrs, _ := lookup(ctx, node) // the user may have given the node a name that no host has
	own, errOwn := net.InterfaceAddrs()
	if errOwn != nil {
		return name, err
	}
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		return !a.IsLoopback() && slices.ContainsFunc(own, func(o net.Addr) bool {
			prefix, errPrefix := netip.ParsePrefix(o.String())
			return errPrefix == nil && prefix.Addr().WithZone("") == a.Unmap()
		})
	}) {
		return node, nil
	}
	return name, err
}

// lookupHost returns the addresses of a host.
func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// Close stops the server after the responses in progress, waiting at most a second, and removes the discovery file.
func (e *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = e.server.Close() // a client does not read its response
	}
	if e.discoveryFile != "" {
		err = errors.Join(err, os.Remove(e.discoveryFile))
	}
	return err
}

// problemReporter reports the first problem of each kind: each may occur at every scrape.
type problemReporter struct {
	report                          func(string)
	failedOnce, slowOnce, connsOnce sync.Once

	mu      sync.Mutex
	foreign map[string]bool // the names that were reported
}

// Println reports a response that failed. A client that has closed its connection is not a problem.
func (o *problemReporter) Println(v ...any) {
	for _, word := range v {
		err, ok := word.(error)
		if ok && errors.Is(err, os.ErrDeadlineExceeded) {
			o.slowOnce.Do(func() {
				o.report("metrics: a client does not read its response and was disconnected; later cases are not reported")
			})
			return
		}
		if ok && errors.As(err, new(*net.OpError)) {
			return
		}
	}
	o.failedOnce.Do(func() { o.report("metrics: " + strings.TrimSpace(fmt.Sprintln(v...))) })
}

// maxForeign is how many names are reported.
const maxForeign = 8

// refuse reports that a request was refused because of its name for this host. It reports each name once: a scanner of ports must
// not hide the name that Prometheus uses. It returns false.
func (o *problemReporter) refuse(r *http.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.foreign[r.Host] || len(o.foreign) == maxForeign {
		return false
	}
	if o.foreign == nil {
		o.foreign = map[string]bool{}
	}
	o.foreign[r.Host] = true
	later := ""
	if len(o.foreign) == maxForeign {
		later = "; further names are not reported"
	}
	o.report(fmt.Sprintf("metrics: a request from %s for the host %.100q was refused, because ibrun does not know this name of "+
		"the host; if it is one, add --metrics-hosts NAME%s", r.RemoteAddr, r.Host, later))
	return false
}

// tooMany reports that a client was refused or disconnected because there were too many.
func (o *problemReporter) tooMany() {
	o.connsOnce.Do(func() {
		o.report("metrics: too many connections at a time, so some are closed; later cases are not reported")
	})
}
