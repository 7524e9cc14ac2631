package exporter

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A scrape that arrives longer than maxInterval after another one does not belong to a series of scrapes: Prometheus takes series
// as ended after that time.
const maxInterval = 5 * time.Minute

// The interval that is assumed of a scraper that has scraped once. By default, that of Prometheus is a minute. Prometheus sends
// a header that says how long it waits for a response.
const (
	assumedInterval           = 15 * time.Second
	assumedPrometheusInterval = time.Minute
	timeoutHeader             = "X-Prometheus-Scrape-Timeout-Seconds"
)

// minInterval is the shortest interval that is taken from scrapes: on a busy machine a scrape may be late by a second.
const minInterval = 2 * time.Second

// maxScrapers is the number of scrapers that are remembered. Those that have scraped last are.
const maxScrapers = 64

// scraper is a client that scrapes, such as one Prometheus.
type scraper struct {
	last     time.Time
	interval time.Duration // the longest time between two of its scrapes, or what bounds it; assumed after the first one
	repeats  bool          // it has scraped more than once
	informed bool          // it has received the exit code of the job
}

// scraperKey identifies a scraper. Its connections have different ports.
type scraperKey struct{ host, agent, query string }

// scrapers are the clients that have scraped.
type scrapers struct {
	mu      sync.Mutex
	all     map[scraperKey]*scraper
	changed chan struct{} // receives after a scraper has received the exit code; has room for one value
}

func newScrapers() *scrapers {
	return &scrapers{all: map[scraperKey]*scraper{}, changed: make(chan struct{}, 1)}
}

// add records a scrape and returns its scraper.
func (s *scrapers) add(r *http.Request, now time.Time) *scraper {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // of a Unix socket
	}
	k := scraperKey{host, r.UserAgent(), r.URL.RawQuery}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.all[k]
	if c == nil || now.Sub(c.last) > maxInterval {
		c = &scraper{interval: assumedInterval}
		if timeoutOf(r) > 0 {
			c.interval = assumedPrometheusInterval
		}
		s.makeRoom()
		s.all[k] = c
	} else if since := max(now.Sub(c.last), timeoutOf(r), minInterval); !c.repeats || since > c.interval {
		c.interval, c.repeats = since, true
	}
	c.last = now
	return c
}

// timeoutOf returns for how long a Prometheus waits for the response; 0 if the client does not say it. The interval of a
// Prometheus is not shorter. Two of them on one host look like a single scraper, and may scrape within milliseconds.
func timeoutOf(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get(timeoutHeader), 64)
	if err != nil || !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, maxInterval.Seconds()) * float64(time.Second))
}

// inform records that a scraper has received the exit code.
func (s *scrapers) inform(c *scraper) {
	s.mu.Lock()
	c.informed = true
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default: // a value is there already
	}
}

// makeRoom removes the scraper that has not scraped for the longest time if there are too many. The caller must hold mu.
func (s *scrapers) makeRoom() {
	if len(s.all) < maxScrapers {
		return
	}
	var oldest scraperKey
	for k, c := range s.all {
		if o := s.all[oldest]; o == nil || c.last.Before(o.last) {
			oldest = k
		}
	}
	delete(s.all, oldest)
}

// limit returns for how long to wait for the scrapers that have not received the exit code of a job that ends now: two intervals
// of the slowest of them. It ignores scrapers that have not come for two of their intervals. 0: there are none.
func (s *scrapers) limit(now time.Time) (limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if !c.informed && now.Sub(c.last) <= 2*c.interval {
			limit = max(limit, 2*c.interval)
		}
	}
	return limit
}

// informed reports whether a scraper has received the exit code, and all have that had scraped recently when the job ended.
func (s *scrapers) informed(ended time.Time) (some, all bool) {
	all = s.limit(ended) == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		some = some || c.informed
	}
	return some, all
}
