package dashboards

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/waittest"
)

var draw = flag.Bool("draw", false, "watch for a minute, and draw the panels anew")

// dashboard is what the test reads of a dashboard of Grafana.
type dashboard struct {
	Title  string
	Panels []panel
}

type panel struct {
	Type        string
	Title       string
	Description string
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []target
}

type target struct{ Expr, LegendFormat string }

// dashboards reads all, by the names of their files.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all := map[string]dashboard{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[f] = d
	}
	return all
}

// variables replaces the variables of the dashboards by what Grafana puts in for them.
var variables = strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$node", ".*", "$op", ".*", "$transport", ".*",
	"$device", ".*")

// query is a panel's expression with what Grafana puts in for its variables.
func (p target) query() string {
	return variables.Replace(p.Expr)
}

// TestPrometheus runs jobs that a real Prometheus scrapes.
func TestPrometheus(t *testing.T) {
	needtest.Program(t, "prometheus", "prometheus")
	ibrun, dir := buildIbrun(t), t.TempDir()
	j := startJob(t, ibrun, dir+"/job.json")
	startPorts(t, dir)
	servers := map[string]*prometheus{
		"classic": startPrometheus(t, dir+"/classic", dir),
		"native":  startPrometheus(t, dir+"/native", dir, "--enable-feature=native-histograms"),
	}
	t.Run("RankDied", func(t *testing.T) { testRankDied(t, ibrun, dir, servers) })
	t.Run("Queries", func(t *testing.T) { testQueries(t, servers) })
	t.Run("Promtool", func(t *testing.T) { testPromtool(t, j) })
}

// testQueries runs every query of every panel and rule, with native histograms and without, when jobs have died and another one
// runs. None may come back empty.
func testQueries(t *testing.T, servers map[string]*prometheus) {
	for name, p := range servers {
		t.Run(name, func(t *testing.T) {
			for file, d := range dashboards(t) {
				for _, panel := range d.Panels {
					for _, q := range panel.Targets {
						p.mustAnswer(t, file+", "+panel.Title, q.query())
					}
				}
			}
			for rule, query := range p.rules(t) {
				p.mustAnswer(t, rule, query)
			}
			p.wantLabels(t)
		})
	}
	if *draw {
		waittest.Elapse(t, time.Minute, "the pictures show a minute")
		for file, d := range dashboards(t) {
			servers["native"].draw(t, strings.TrimSuffix(file, ".json")+".svg", d)
		}
	}
}

// prometheus is one that runs.
type prometheus struct{ at string }

// startPrometheus starts a Prometheus with the rules of this folder, which scrapes what the files in the folder discovery name.
// Its query has a parameter by which the endpoint of a job distinguishes it from others on this machine.
func startPrometheus(t *testing.T, dir, discovery string, flags ...string) *prometheus {
	t.Helper()
	rules, err := filepath.Abs("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	port, err := freeport.TCP()
	if err != nil {
		t.Fatal(err)
	}
	p := &prometheus{at: fmt.Sprint("127.0.0.1:", port)}
	interval := "500ms"
	if *draw {
		interval = "1s"
	}
	config := fmt.Sprintf(`global: {scrape_interval: %s, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs:
  - {job_name: ibrun, file_sd_configs: [{files: [%q]}], params: {from: [%q]}}
`, interval, rules, discovery+"/*.json", filepath.Base(dir))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/prometheus.yml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command("prometheus", append(flags, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address="+p.at, "--log.level=warn")...))
	waittest.UntilNil(t, "Prometheus", func() error {
		r, err := http.Get("http://" + p.at + "/-/ready")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return nil
	})
	return p
}

// ask calls the interface of Prometheus and decodes the data of its answer.
func (p *prometheus) ask(what string, v url.Values, data any) error {
	r, err := http.Get("http://" + p.at + "/api/v1/" + what + "?" + v.Encode())
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// series is one of an answer.
type series struct {
	Metric map[string]string
	Value  []any // time and value of an answer for one moment
	// Histogram is set instead for a native histogram.
	Histogram []any
	Values    [][]any // of an answer for a range of time
}

// mustAnswer waits until a query has an answer that is a number.
func (p *prometheus) mustAnswer(t *testing.T, whose, query string) {
	t.Helper()
	waittest.UntilNil(t, whose+": "+query, func() error {
		var data struct{ Result []series }
		if err := p.ask("query", url.Values{"query": {query}}, &data); err != nil {
			return err
		}
		for _, s := range data.Result {
			if len(s.Value) == 2 && s.Value[1] != "NaN" || len(s.Histogram) == 2 {
				return nil
			}
		}
		return errors.New("no answer")
	})
}

// wantLabels checks that Prometheus has renamed no label of the metrics.
func (p *prometheus) wantLabels(t *testing.T) {
	t.Helper()
	var names []string
	if err := p.ask("labels", nil, &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "exported_") {
			t.Errorf("a metric has the label %s, which Prometheus sets itself", strings.TrimPrefix(name, "exported_"))
		}
	}
	if !slices.Contains(names, "ibrun_job") || !slices.Contains(names, "ibrun_node") {
		t.Errorf("the labels are %v", names)
	}
}

// threshold is the end of an alert's expression, without which it tells what it looks at.
var threshold = regexp.MustCompile(`\s*[<>]\s*[0-9.e+]+\s*$`)

// rules are the expressions of the rules that Prometheus has loaded. Those of alerts are without their thresholds.
func (p *prometheus) rules(t *testing.T) map[string]string {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Query, Type string }
		}
	}
	if err := p.ask("rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if all[r.Name] = r.Query; r.Type == "alerting" {
				without := threshold.ReplaceAllString(r.Query, "")
				if without == r.Query {
					t.Errorf("%s has no threshold: %s", r.Name, r.Query)
				}
				all[r.Name] = without
			}
		}
	}
	text, err := os.ReadFile("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^ +- (record|alert):`).FindAll(text, -1)); n == 0 || n != len(all) {
		t.Errorf("Prometheus has loaded %d rules of %d", len(all), n)
	}
	return all
}
