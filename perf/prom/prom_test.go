package prom

import (
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/perf"
)

// job is a set of ranks whose recorders a test drives.
type job struct {
	t     testing.TB
	ranks []*testRank
	node  *Node
	now   time.Time
}

type testRank struct {
	memory []byte
	rec    *perf.Recorder
	err    error
	dead   bool

	process *Process
}

func newJob(t testing.TB, n int) *job {
	j := &job{t: t}
	for rank := range n {
		f := &testRank{memory: make([]byte, perf.PageBytes),
			process: &Process{time.Duration(rank+1) * time.Second, 1 << 20, 2 << 20}}
		var err error
		if f.rec, err = perf.NewRecorder(f.memory, perf.Identity{Rank: rank, Size: n}, perf.All); err != nil {
			t.Fatal(err)
		}
		j.ranks = append(j.ranks, f)
	}
	j.now = time.Now()
	j.node = &Node{Job: "j1", Name: "n0", Ranks: j.look, Now: func() time.Time { return j.now }}
	return j
}

func (j *job) look() []Rank {
	var all []Rank
	for i, f := range j.ranks {
		r := Rank{Rank: i, Dead: f.dead, Err: f.err, Process: f.process}
		if f.err == nil {
			page, err := perf.Open(f.memory)
			if err == nil {
				r.Snapshot, err = page.Snapshot()
			}
			if err != nil && !errors.Is(err, perf.ErrEmpty) {
				j.t.Error(err)
			}
		}
		all = append(all, r)
	}
	return all
}

// work records some calls, messages and waits of every rank.
func (j *job) work() {
	for i, f := range j.ranks {
		l := f.rec.Link((i+1)%len(j.ranks), perf.Shm)
		for n := range 100 {
			f.rec.End(perf.Send, n, f.rec.Begin(perf.Send, n))
			l.Out(n)
			l.In(n)
		}
		f.rec.End(perf.Barrier, 0, f.rec.Begin(perf.Barrier, 0))
		f.rec.Unexpected(i, 100*i)
		f.rec.Matched(1, 1)
		f.rec.Registered(3, 4096)
		f.rec.Retransmitted(uint64(i))
		f.rec.Reconnected(uint64(i), 2*uint64(i))
		f.rec.Waited(f.rec.Now())
		f.rec.Progress(uint64(i), 10)
	}
}

// scrape requests one format and returns the families of the answer.
func scrape(t testing.TB, n *Node, query, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics"+query, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	n.Handler(log.Default()).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	format := expfmt.ResponseFormat(w.Result().Header)
	all := map[string]*dto.MetricFamily{}
	if format.FormatType() != expfmt.TypeProtoDelim {
		p := expfmt.NewTextParser(model.UTF8Validation)
		all, err := p.TextToMetricFamilies(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for d := expfmt.NewDecoder(w.Body, format); ; {
		var f dto.MetricFamily
		if err := d.Decode(&f); err != nil {
			return all
		}
		all[f.GetName()] = &f
	}
}

const (
	text     = "text/plain"
	protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// value returns the only metric that has these labels, given as name, value, name, value.
func value(t testing.TB, all map[string]*dto.MetricFamily, family int, labels ...string) *dto.Metric {
	t.Helper()
	f := all[families[family].name]
	if f == nil {
		t.Fatalf("no %s", families[family].name)
	}
	var found *dto.Metric
	for _, m := range f.Metric {
		has := map[string]string{}
		for _, l := range m.Label {
			has[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && has[labels[i]] == labels[i+1]
		}
		if fits && found != nil {
			t.Fatalf("%s has more than one metric with %q", f.GetName(), labels)
		} else if fits {
			found = m
		}
	}
	if found == nil {
		t.Fatalf("%s has no metric with %q: %v", f.GetName(), labels, f.Metric)
	}
	return found
}

// number returns the value of a counter or gauge.
func number(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

func TestSum(t *testing.T) {
	j := newJob(t, 3)
	j.work()
	for _, accept := range []string{text, protobuf} {
		all := scrape(t, j.node, "", accept)
		for _, c := range []struct {
			family int
			labels []string
			want   float64
		}{
			{buildInfo, []string{"ibrun_job", "j1", "ibrun_node", "n0", "goversion", runtime.Version()}, 1},
			{progressDone, nil, 3}, {progressExpected, nil, 30},
			{cpuSeconds, nil, 6}, {resident, nil, 3 << 20}, {residentHigh, nil, 2 << 20},
			{rankStates, []string{"state", "running"}, 3},
			{calls, []string{"op", "Send"}, 300},
			{operationBytes, []string{"op", "Send"}, 3 * 4950},
			{messages, []string{"direction", "out", "transport", "shm", "protocol", "eager"}, 300},
			{messageBytes, []string{"direction", "in", "transport", "shm", "protocol", "eager"}, 3 * 4950},
			{unexpected, nil, 3}, {unexpectedHigh, nil, 2}, {unexpectedBytes, nil, 300},
			{retransmissions, nil, 3}, {reconnections, nil, 3}, {changes, nil, 6},
			{registrations, nil, 9}, {pinned, nil, 3 * 4096}, {pinnedHigh, nil, 4096},
			{unreadablePages, nil, 0},
		} {
			if got := number(value(t, all, c.family, c.labels...)); got != c.want {
				t.Errorf("%s %v: %v, want %v", families[c.family].name, c.labels, got, c.want)
			}
		}
		h := value(t, all, latency, "op", "Send", "size", "64").Histogram
		if h.GetSampleCount() != 3*65 || h.GetSampleSum() <= 0 || h.Bucket[len(h.Bucket)-1].GetCumulativeCount() != 3*65 {
			t.Errorf("%s: %v", accept, h)
		}
		if native := h.Schema != nil; native != (accept == protobuf) {
			t.Errorf("%s: native buckets: %v", accept, native)
		}
	}
}

func TestEach(t *testing.T) {
	j := newJob(t, 3)
	j.work()
	all := scrape(t, j.node, "?ranks=each", text)
	if got := number(value(t, all, calls, "op", "Barrier", "rank", "2")); got != 1 {
		t.Errorf("%v barriers of rank 2", got)
	}
	if got := number(value(t, all, unexpected, "rank", "1")); got != 1 {
		t.Errorf("%v unexpected messages of rank 1", got)
	}
	w := httptest.NewRecorder()
	j.node.Handler(log.Default()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics?ranks=some", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("an unknown query has code %d", w.Code)
	}
}

// TestDeath: no counter decreases when a rank dies.
func TestDeath(t *testing.T) {
	j := newJob(t, 3)
	j.ranks = append(j.ranks, &testRank{memory: make([]byte, perf.PageBytes)}) // a rank that never writes its page
	j.work3()
	before := scrape(t, j.node, "", text)
	j.ranks[0].dead, j.ranks[0].process = true, nil
	j.ranks[1].err = &perf.VersionError{Got: 2, Want: 1}
	j.ranks[2].rec.Finish()
	after := scrape(t, j.node, "", text)
	for _, f := range []int{calls, operationBytes} {
		if a, b := number(value(t, before, f, "op", "Send")), number(value(t, after, f, "op", "Send")); a != b || a == 0 {
			t.Errorf("%s was %v and is %v", families[f].name, a, b)
		}
	}
	if cpu, memory := number(value(t, after, cpuSeconds)), number(value(t, after, resident)); cpu != 6 || memory != 2<<20 {
		t.Errorf("the ranks have used %v s of processor time, and use %v bytes", cpu, memory)
	}
	for state, want := range map[string]float64{"silent": 1, "running": 1, "finalized": 1, "dead": 1} {
		if got := number(value(t, after, rankStates, "state", state)); got != want {
			t.Errorf("%v ranks are %s, want %v", got, state, want)
		}
	}
	if got := number(value(t, after, unreadablePages)); got != 1 {
		t.Errorf("%v pages cannot be read, want 1", got)
	}
	was := number(value(t, after, rankSeconds))
	j.now = j.now.Add(time.Second)
	if got := number(value(t, scrape(t, j.node, "", text), rankSeconds)) - was; math.Abs(got-1) > 1e-6 {
		t.Errorf("%v rank-seconds in a second, want that of the one that runs", got)
	}
}

// work3 is work for the first three ranks.
func (j *job) work3() { (&job{t: j.t, ranks: j.ranks[:3]}).work() }

// TestExitCode: the exit code has a series from the end of the job on.
func TestExitCode(t *testing.T) {
	j, code, ended := newJob(t, 1), 0, false
	j.node.ExitCode = func() (int, bool) { return code, ended }
	name := families[exitCode].name
	if f := scrape(t, j.node, "", text)[name]; f != nil {
		t.Errorf("a job that runs has an exit code: %v", f)
	}
	for _, code = range []int{0, 137} {
		ended = true
		if got := number(value(t, scrape(t, j.node, "", text), exitCode)); got != float64(code) {
			t.Errorf("the exit code is %v, want %d", got, code)
		}
	}
}

// TestLabels: every series names the job and the node, and none has a label that Prometheus or its discovery sets.
func TestLabels(t *testing.T) {
	j := newJob(t, 2)
	j.work()
	j.node.Root = hwtest.Tree(t, "testdata/port.txtar")
	j.node.ExitCode = func() (int, bool) { return 0, true }
	for _, query := range []string{"", "?ranks=each"} {
		all := scrape(t, j.node, query, text)
		if len(all) != len(families) {
			t.Errorf("%d families are served, want %d", len(all), len(families))
		}
		for name, f := range all {
			for _, m := range f.Metric {
				has := map[string]string{}
				for _, l := range m.Label {
					has[l.GetName()] = l.GetValue()
				}
				if has[jobLabel] != "j1" || has[nodeLabel] != "n0" {
					t.Errorf("%s has the labels %v", name, has)
				}
				for _, taken := range []string{"job", "instance", "node", "namespace", "pod", "host"} {
					if has[taken] != "" {
						t.Errorf("%s has the label %s", name, taken)
					}
				}
			}
		}
	}
}

func TestOldest(t *testing.T) {
	j := newJob(t, 2)
	lane := j.ranks[1].rec.Enter(perf.Recv, 0, 7, 8)
	age := func() float64 { return number(value(t, scrape(t, j.node, "", text), oldestCall)) }
	first := age()
	j.now = j.now.Add(3 * time.Second)
	if got := age(); first != 0 || got != 3 {
		t.Errorf("the oldest call is %v and then %v s old", first, got)
	}
	j.ranks[1].rec.Leave(lane)
	if got := age(); got != 0 {
		t.Errorf("%v s without any call", got)
	}
}

// TestQuantiles compares quantiles of classic and native buckets with the raw values.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	raw := make([]time.Duration, 20000)
	for i := range raw {
		raw[i] = time.Duration(1000 * math.Exp(r.NormFloat64()*1.5))
	}
	l := &latencyHistogram{desc: new(Node).descs(false)[latency], labels: []string{"Send", "64"}, source: perf.HistogramOf(raw...)}
	var m dto.Metric
	if err := l.Write(&m); err != nil {
		t.Fatal(err)
	}
	slices.Sort(raw)
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999} {
		want := raw[int(q*float64(len(raw)))].Seconds()
		if got := nativeQuantile(m.Histogram, q); math.Abs(got/want-1) > 0.05 {
			t.Errorf("native quantile %v is %v, want %v", q, got, want)
		}
		i, _ := slices.BinarySearchFunc(m.Histogram.Bucket, q*float64(len(raw)), func(b *dto.Bucket, n float64) int {
			return int(float64(b.GetCumulativeCount()) - n)
		})
		if b := m.Histogram.Bucket[i].GetUpperBound(); want > b || want < b/2 && i > 0 {
			t.Errorf("classic quantile %v is below %v, want about %v", q, b, want)
		}
	}
}

// nativeQuantile decodes the buckets as the specification of native histograms defines them.
func nativeQuantile(h *dto.Histogram, q float64) float64 {
	rank, seen := q*float64(h.GetSampleCount()), float64(h.GetZeroCount())
	index, count, n := int32(0), int64(0), 0
	for _, s := range h.PositiveSpan {
		index += s.GetOffset()
		for range s.GetLength() {
			count += h.PositiveDelta[n]
			n++
			if seen += float64(count); seen >= rank {
				return math.Exp2((float64(index) - 0.5) / float64(int(1)<<h.GetSchema()))
			}
			index++
		}
	}
	return math.Inf(1)
}

// TestNativeSum: the buckets add up to the count; otherwise Prometheus rejects the histogram.
func TestNativeSum(t *testing.T) {
	for _, of := range [][]time.Duration{nil, {0}, {0, 1, 1 << 40, 1 << 60}} {
		var m dto.Metric
		l := &latencyHistogram{desc: new(Node).descs(false)[latency], labels: []string{"Send", "64"}, source: perf.HistogramOf(of...)}
		if err := l.Write(&m); err != nil {
			t.Fatal(err)
		}
		sum, count := m.Histogram.GetZeroCount(), int64(0)
		for _, d := range m.Histogram.PositiveDelta {
			count += d
			sum += uint64(count)
		}
		if sum != uint64(len(of)) || m.Histogram.GetSampleCount() != sum || len(m.Histogram.PositiveSpan) == 0 {
			t.Errorf("%v: %v", of, &m)
		}
	}
}

func TestPorts(t *testing.T) {
	j := newJob(t, 1)
	j.node.Root = hwtest.Tree(t, "testdata/port.txtar")
	all := scrape(t, j.node, "", text)
	for _, c := range []struct {
		family int
		labels []string
		want   float64
	}{
		{portUp, []string{"device", "mlx5_0", "port", "1", "link_layer", "InfiniBand"}, 1},
		{portUp, []string{"device", "mlx5_1"}, 0},
		{portRate, []string{"device", "mlx5_0"}, 25e9},
		{portSent, []string{"device", "mlx5_0"}, 4000},
		{portReceived, []string{"device", "mlx5_0"}, 8000},
		{portCounter, []string{"device", "mlx5_0", "counter", "symbol_error"}, 5},
		{portCounter, []string{"device", "mlx5_0", "counter", "out_of_sequence"}, 6},
		{deviceProblems, []string{"device", "mlx5_0"}, 0},
		{deviceProblems, []string{"device", "mlx5_1"}, 1},
	} {
		if got := number(value(t, all, c.family, c.labels...)); got != c.want {
			t.Errorf("%s %v: %v, want %v", families[c.family].name, c.labels, got, c.want)
		}
	}
}

// TestDocument compares docs/metrics.md with the metrics that are served: a row for each family, with its type and labels, and
// no other.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(doc)) {
		if regexp.MustCompile("^\\| `ibrun_").MatchString(line) {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	for i, f := range families {
		labels := "–"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		if want := fmt.Sprintf("| `%s` | %s | %s | %s |", f.name, f.kind, labels, f.help); i >= len(rows) || rows[i] != want {
			t.Fatalf("row %d of docs/metrics.md is not\n%s", i, want)
		}
	}
	if len(rows) != len(families) {
		t.Errorf("docs/metrics.md has %d metrics, and %d are served", len(rows), len(families))
	}
}

// BenchmarkScrape scrapes a node with 256 ranks.
func BenchmarkScrape(b *testing.B) {
	j := newJob(b, 256)
	j.work()
	h := j.node.Handler(log.Default())
	for b.Loop() {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil)); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
