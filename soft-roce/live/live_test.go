package live

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorder is a testing.TB that records how the test ended. Skipf and Fatalf end the test.
type recorder struct {
	testing.TB
	outcome string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) {
	r.outcome = "skipped: " + fmt.Sprintf(format, args...)
	panic(r)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.outcome = "failed: " + fmt.Sprintf(format, args...)
	panic(r)
}

// runTest runs a test and returns how it ended.
func runTest(test func(testing.TB)) (outcome string) {
	r := &recorder{}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		outcome = r.outcome
	}()
	test(r)
	return ""
}

func TestSkipsOnlyWithoutLiveVariable(t *testing.T) {
	device := func(t testing.TB) { Device(t) }
	nodes := func(n int) func(testing.TB) { return func(t testing.TB) { Nodes(t, n) } }
	for _, c := range []struct {
		live, node, addrs string
		test              func(testing.TB)
		want              string
	}{
		{"", "", "", device, "skipped: needs an RDMA device: go run github.com/ibrun/ibrun/soft-roce/vm -nodes 1 -- go test"},
		{"", "", "", nodes(2), "skipped: needs an RDMA device: go run github.com/ibrun/ibrun/soft-roce/vm -nodes 2 -- go test"},
		{"1", "0", "a", nodes(1), ""},
		{"1", "0", "a", nodes(2), "skipped: needs two nodes"},
		{"2", "0", "a,b", nodes(2), ""},
		{"2", "0", "a", nodes(2), "failed: IBRUN_LIVE is"},
		{"2", "", "", nodes(2), "failed: IBRUN_LIVE is"},
		{"1", "", "", nodes(1), "failed: IBRUN_LIVE is"},
		{"2", "1", "a,b", nodes(2), "failed: IBRUN_LIVE is"},
		{"yes", "", "", device, "failed: IBRUN_LIVE=yes"},
	} {
		t.Setenv(liveVariable, c.live)
		t.Setenv(nodeVariable, c.node)
		t.Setenv(addrsVariable, c.addrs)
		if got := runTest(c.test); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("IBRUN_LIVE=%s, node %q of %q: %q, want %q", c.live, c.node, c.addrs, got, c.want)
		}
	}
	t.Setenv(liveVariable, "1")
	got := runTest(device)
	if _, err := os.Stat("/sys/class/infiniband"); err != nil && !strings.HasPrefix(got, "failed: ") {
		t.Errorf("without a device but with IBRUN_LIVE the test ended: %q", got)
	}
}

func TestCommand(t *testing.T) {
	for want, n := range map[string]Node{"true a b": {Number: 0}, "vm exec -raw 1 true a b": {Number: 1}} {
		if got := strings.Join(n.Command("true", "a", "b").Args, " "); got != want {
			t.Errorf("node %d: %q, want %q", n.Number, got, want)
		}
	}
}

// Only this package skips live tests: a skip in the test itself could hide a failure.
func TestLiveTestsDoNotSkip(t *testing.T) {
	for _, file := range liveTests(t) {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				t.Errorf("%s uses %s; to fix it, begin the test with live.Device or live.Nodes", file, s.Sel.Name)
			}
			return true
		})
	}
}

// liveTests lists the files of live tests in the module.
func liveTests(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_live_test.go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("files of live tests: %v, %v", files, err)
	}
	return files
}
