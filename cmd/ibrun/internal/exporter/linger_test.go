package exporter

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/perf/prom"
)

// scrapeOf returns a scrape by a client at an address.
func scrapeOf(host, agent string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.RemoteAddr = host + ":4711"
	r.Header.Set("User-Agent", agent)
	return r
}

// scrapesOf are the times of scrapes by client.
type scrapesOf map[string][]time.Duration

// TestScrapers: the limit follows from the intervals of the scrapers that have come lately.
func TestScrapers(t *testing.T) {
	start, second := time.Now(), time.Second
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for name, c := range map[string]struct {
		scrapes scrapesOf
		end     time.Duration
		want    time.Duration
	}{
		"none":                  {nil, 0, 0},
		"one by hand":           {scrapesOf{"curl": {0}}, 20 * second, 30 * second},
		"one by hand, long ago": {scrapesOf{"curl": {0}}, 31 * second, 0},
		"one of a Prometheus":   {scrapesOf{"Prometheus": {0}}, 100 * second, 120 * second},
		"two":                   {scrapesOf{"Prometheus": {0, 5 * second}}, 6 * second, 10 * second},
		"two of one host":       {scrapesOf{"Prometheus": {0, second / 100}}, second, 6 * second},
		"two in a short time":   {scrapesOf{"curl": {0, second / 100}}, second, 2 * minInterval},
		"the longest counts":    {scrapesOf{"Prometheus": {0, 9 * second, 10 * second}}, 11 * second, 18 * second},
		"the slower one counts": {scrapesOf{"Prometheus": {0, second}, "agent": {0, 4 * second}}, 4 * second, 8 * second},
		"one has gone": {scrapesOf{"Prometheus": {100 * second, 101 * second}, "agent": {0, 3 * second}}, 101 * second,
			6 * second},
		"by hand, now and then":   {scrapesOf{"curl": {0, time.Hour}}, time.Hour, 30 * second},
		"the slowest that counts": {scrapesOf{"curl": {0, maxInterval}}, maxInterval, 2 * maxInterval},
	} {
		s := newScrapers()
		for agent, times := range c.scrapes {
			r := scrapeOf("10.0.0.1", agent)
			if agent == "Prometheus" {
				r.Header.Set(timeoutHeader, "3.0")
			}
			for _, d := range times {
				s.add(r, at(d))
			}
		}
		if got := s.limit(at(c.end)); got != c.want {
			t.Errorf("%s: it lingers for %v, want %v", name, got, c.want)
		}
	}
}

// TestInformed: every scraper that has come lately must receive the exit code, also if several are behind one kind of client.
func TestInformed(t *testing.T) {
	s, now := newScrapers(), time.Now()
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
		s.add(scrapeOf(host, "Prometheus"), now)
	}
	for i, host := range []string{"10.0.0.1", "10.0.0.2"} {
		s.inform(s.add(scrapeOf(host, "Prometheus"), now))
		if some, all := s.informed(now); !some || all != (i == 1) {
			t.Errorf("after %d scrapes: some %v, all %v", i+1, some, all)
		}
	}
	for i := range 2 * maxScrapers {
		s.add(scrapeOf("10.0.1.1", fmt.Sprint(i)), now.Add(time.Duration(i)))
	}
	if len(s.all) != maxScrapers {
		t.Errorf("%d scrapers are remembered", len(s.all))
	}
}

// ending returns a node whose job has ended when the flag says so.
func ending(ended *atomic.Bool) *prom.Node {
	n := idle()
	n.ExitCode = func() (int, bool) { return 137, ended.Load() }
	return n
}

// TestLinger: the endpoint waits for a scrape that has the exit code, for a signal, or until the limit; without earlier scrapes
// not at all.
func TestLinger(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		limit         *time.Duration
		before        int // scrapes
		then          string
		begun, signal bool
	}{
		"never scraped":        {nil, 0, "", false, false},
		"scraped":              {nil, 1, "scrape", true, false},
		"signal":               {nil, 1, "signal", true, true},
		"limit":                {new(time.Duration), 1, "", false, false},
		"limit, never scraped": {&second, 0, "scrape", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var ended atomic.Bool
			e := start(t, Options{Address: ":0", Linger: c.limit}, ending(&ended))
			for range c.before {
				if text := get(t, e); strings.Contains(text, "exit_code") {
					t.Errorf("a job that runs has an exit code: %s", text)
				}
			}
			ended.Store(true)
			stop, begun := make(chan os.Signal, 1), false
			var scrape sync.WaitGroup
			defer scrape.Wait()
			stopped := e.Linger(stop, func(time.Duration) {
				begun = true
				switch c.then {
				case "scrape":
					scrape.Go(func() {
						r, err := http.Get(e.URL())
						if err != nil {
							t.Error(err)
							return
						}
						r.Body.Close()
					})
				case "signal":
					stop <- syscall.SIGTERM
				}
			})
			if begun != c.begun || stopped != c.signal {
				t.Errorf("begun %v, stopped %v", begun, stopped)
			}
		})
	}
}

// TestLingerLimit: nobody scrapes after the end of the job, and the endpoint is given up after the limit.
func TestLingerLimit(t *testing.T) {
	limit := 50 * time.Millisecond
	var ended atomic.Bool
	e := start(t, Options{Address: ":0", Linger: &limit}, ending(&ended))
	get(t, e)
	ended.Store(true)
	if e.Linger(nil, func(got time.Duration) {
		if got != limit {
			t.Errorf("it lingers for %v", got)
		}
	}) {
		t.Error("it was stopped")
	}
}

// TestEndsWhileScraped: the job ends after a scrape has begun, and before or while its response is made. The client that then has
// the exit code counts as informed: it may not come again.
func TestEndsWhileScraped(t *testing.T) {
	var ended atomic.Bool
	n := ending(&ended)
	begun, goOn := make(chan struct{}, 8), make(chan struct{})
	n.Ranks = func() []prom.Rank { // the exit code of the response has been read before
		begun <- struct{}{}
		<-goOn
		return nil
	}
	e := start(t, Options{Address: ":0"}, n)
	texts := make(chan string, 2)
	for range 2 {
		go func() {
			var text []byte
			r, err := http.Get(e.URL())
			if err == nil {
				text, err = io.ReadAll(r.Body)
				r.Body.Close()
			}
			if err != nil {
				t.Error(err)
			}
			texts <- string(text)
		}()
	}
	waittest.Receive(t, "a response is made", begun)
	waittest.Until(t, "the other scrape has begun", func() bool {
		e.scrapers.mu.Lock()
		defer e.scrapers.mu.Unlock()
		for _, c := range e.scrapers.all {
			return c.repeats
		}
		return false
	})
	ended.Store(true)
	close(goOn)
	for range 2 {
		if text := waittest.Receive(t, "a response", texts); !strings.Contains(text, "\nibrun_job_exit_code{") {
			t.Errorf("no exit code in\n%s", text)
		}
	}
	now := time.Now()
	waittest.Until(t, "the clients count as informed", func() bool { // a client has its response a moment before
		some, all := e.scrapers.informed(now)
		return some && all
	})
	if e.Linger(nil, func(time.Duration) { t.Error("it waits for clients that have the exit code") }) {
		t.Error("it was stopped")
	}
}
