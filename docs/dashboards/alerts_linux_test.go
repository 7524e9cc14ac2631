package dashboards

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// testRankDied: when a rank is killed, the alert fires, in every job. IBRUN_SOAK=1 tries it in 20 jobs.
func testRankDied(t *testing.T, ibrun, dir string, servers map[string]*prometheus) {
	jobs := soaktest.Choose(20, 2)
	for i := range jobs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			j := startJob(t, ibrun, filepath.Join(dir, fmt.Sprintf("job%d.json", i)))
			id := ""
			for _, p := range servers {
				id = j.awaitScrape(t, p)
			}
			j.killRank(t, id)
			for _, p := range servers {
				for _, alert := range []string{"IbrunRankDied", "IbrunJobFailed"} {
					p.mustAnswer(t, "job "+id, fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing",ibrun_job=%q}`, alert, id))
				}
			}
		})
	}
}

// testPromtool: the metrics of a job follow the conventions of Prometheus, and every alert passes its tests.
func testPromtool(t *testing.T, j *job) {
	for _, query := range []string{"", "?ranks=each"} {
		r, err := http.Get("http://" + j.at + "/metrics" + query)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("promtool", "check", "metrics")
		c.Stdin = r.Body
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
		r.Body.Close()
	}
	if out, err := exec.Command("promtool", "test", "rules", "rules_test.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

// TestRunbooks: every alert has tests in which it fires and in which it does not, and a section of the runbook, which its
// annotation names.
func TestRunbooks(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, tests, runbooks := read("rules.yml"), read("rules_test.yml"), read("../runbooks.md")
	blocks := strings.Split(rules, "- alert: ")[1:]
	if len(blocks) == 0 {
		t.Fatal("no alerts")
	}
	for _, block := range blocks {
		name, _, _ := strings.Cut(block, "\n")
		if want := "runbook_url: docs/runbooks.md#" + strings.ToLower(name) + "\n"; !strings.Contains(block, want) {
			t.Errorf("%s lacks %s", name, want)
		}
		if !strings.Contains(runbooks, "\n## "+name+"\n") {
			t.Errorf("docs/runbooks.md has no section %s", name)
		}
		silent := regexp.MustCompile(`alertname: ` + name + `, exp_alerts: \[\]`).MatchString(tests)
		fires := regexp.MustCompile(`alertname: ` + name + `\n +exp_alerts:\n`).MatchString(tests)
		if !silent || !fires {
			t.Errorf("%s has a test in which it fires: %v; in which it does not: %v", name, fires, silent)
		}
	}
	if n := strings.Count(runbooks, "\n## "); n != len(blocks) {
		t.Errorf("docs/runbooks.md has %d sections, and there are %d alerts", n, len(blocks))
	}
}
