package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

func TestText(t *testing.T) {
	r := Report{Verdict: Verdict{Summary: "it works"}, Findings: []Finding{
		{"a.b", OK, "seen", "", ""},
		{"c.d", Info, "nothing", "", ""},
		{"e.f", Error, "seen\nmore", "bad", "repair"},
		{"g.h", Info, "nothing", "", ""},
	}}
	want := `it works
ok       a.b              seen
info     c.d              nothing
                          same result: g.h
error    e.f              seen
                          more
                          why: bad
                          fix: repair
1 errors, 0 warnings, 2 hints; 1 ok
`
	var b bytes.Buffer
	if err := r.Text(&b, true); err != nil || b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// Programs rely on the names in the JSON, and it contains every check that ran.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := RunChecks(healthy()).JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct{ Findings []map[string]any }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, c := range checks() {
		f := got.Findings[i]
		if f["id"] != c.id || f["severity"] != "ok" || f["evidence"] == "" || f["why"] != "" || f["fix"] != "" || len(f) != 5 {
			t.Errorf("finding %d is %v, want the good one of %s", i, f, c.id)
		}
	}
}

// machines returns the file names of captured and constructed machines.
func machines(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"machines/*.txtar", "rdma/*.txtar"} {
		found, err := filepath.Glob("../../../../hw/testdata/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		names = append(names, found...)
	}
	return names
}

// Every check returns a finding for every machine, and missing data is not a warning.
func TestMachines(t *testing.T) {
	examined := 0
	for _, name := range machines(t) {
		h, err := capturedHost(hwtest.Tree(t, name))
		if err != nil {
			continue // a tree without processors, for other tests
		}
		examined++
		r := RunChecks(h)
		for _, c := range checks() {
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == c.id }) {
				t.Errorf("%s: %s returns no finding", name, c.id)
			}
		}
		for _, id := range []string{"memlock.limit", "process.files", "flow.pfc", "flow.ecn", "verbs.open", "gid.index", "reach.ports",
			"host.iommu", "host.governor", "host.thp", "process.kernel"} {
			if f := of(r, id); f.Severity != Info && !(id == "verbs.open" && strings.Contains(f.Evidence, "uverbs file")) {
				t.Errorf("%s: %+v, but the tree has no such data", name, f)
			}
		}
	}
	if examined < 5 {
		t.Errorf("only %d machines were examined", examined)
	}
}

func TestCommand(t *testing.T) {
	run := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := Main(args, []string{"PATH=" + os.Getenv("PATH")}, "ibrun v1", &out, &errs)
		return code, out.String(), errs.String()
	}
	archive := filepath.Join(t.TempDir(), "m.tar.gz")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hw.Capture(f, hwtest.Tree(t, "../../../../hw/testdata/machines/two-sockets.txtar")),
		f.Close()); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run("--json", "--input", archive)
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != r.ExitCode() || errs != "" || len(r.Findings) < len(checks()) {
		t.Errorf("code %d, %v, %d findings, %q", code, err, len(r.Findings), errs)
	}
	if code, out, errs := run("--all"); code > 1 || !strings.Contains(out, "process.kernel") || errs != "" {
		t.Errorf("this machine: code %d, %s, %s", code, out, errs)
	}
	for _, c := range []struct {
		line, want string
	}{
		{"--input /nowhere", "no such file"},
		{"--input " + t.TempDir(), "read "},
		{"--input x host", "captured tree"},
		{"--what", "-what"},
	} {
		if code, out, errs := run(strings.Fields(c.line)...); code != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, %q, %q; want 2 and %q", c.line, code, out, errs, c.want)
		}
	}
	page := Page()
	if code, out, _ := run("help"); code != 0 || out != page.Help() {
		t.Errorf("help: code %d, %q", code, out)
	}
}

func TestLookup(t *testing.T) {
	getenv := lookup([]string{"A=1", "AB=2", "A=3", "C="})
	for name, want := range map[string]string{"A": "3", "AB": "2", "B": "", "C": ""} {
		if got := getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
