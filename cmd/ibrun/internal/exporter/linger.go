package exporter

import (
	"net/http"
	"os"
	"time"
)

// onScrape records a scrape, and makes its response by render. The caller must call sent when the client has the response.
func (e *Exporter) onScrape(r *http.Request, render func()) (sent func()) {
	c, ended := e.scrapers.add(r, time.Now()), e.jobEnded()
	render()
	if !ended && e.jobEnded() {
		// The job has ended meanwhile, so the response may have the exit code, or not. The next one has it.
		ended = true
		render()
	}
	return func() {
		if ended {
			e.scrapers.inform(c)
		}
	}
}

// jobEnded reports whether the exit code of the job is among the metrics. It stays there.
func (e *Exporter) jobEnded() bool {
	if e.exitCode == nil {
		return false
	}
	_, ended := e.exitCode()
	return ended
}

// LingerLimit returns how long Linger would wait at most if the job ended now.
func (e *Exporter) LingerLimit() time.Duration {
	if e.linger != nil {
		return *e.linger
	}
	return e.scrapers.limit(time.Now())
}

// Linger blocks until the clients that scrape have received the exit code of the job, so that none misses how it has ended. It
// waits for those that have scraped lately, and for each at most two of its intervals; with Options.Linger also for a first
// scrape, and at most that long. It returns earlier if stop receives a value, and reports that. begin is called if it has to
// wait, with the limit. The exit code must be among the metrics.
func (e *Exporter) Linger(stop <-chan os.Signal, begin func(limit time.Duration)) (stopped bool) {
	ended := time.Now()
	limit := e.LingerLimit()
	over := time.NewTimer(limit)
	defer over.Stop()
	for began := false; limit > 0; began = true {
		if some, all := e.scrapers.informed(ended); all && (some || e.linger == nil) {
			return false
		}
		if !began {
			begin(limit)
		}
		select {
		case <-e.scrapers.changed:
		case <-stop:
			return true
		case <-over.C:
			return false
		}
	}
	return false
}
