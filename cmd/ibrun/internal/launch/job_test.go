package launch

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
)

// parsed returns the job of a command line.
func parsed(t *testing.T, line string) *job {
	t.Helper()
	o, err := cli.Parse(strings.Fields(line), cli.LookupEnv(nil))
	if err != nil {
		t.Fatal(err)
	}
	return newJob(o)
}

// TestCommandOfJob: what nodes must have in common are the programs, their ranks, the process sets
// and the mapping to nodes. Directories, variables and what concerns one node only may differ.
func TestCommandOfJob(t *testing.T) {
	of := func(line string) coordinator.Command { return parsed(t, line).joinSettings("n").Command }
	want := coordinator.Command{Mapping: "--ppn 2", Programs: []coordinator.Program{{Ranks: 3, Args: []string{"a", "b"}},
		{Ranks: 1, Args: []string{"c"}}}, Psets: []coordinator.Pset{{Name: "x", Ranks: "2-3,0"}}}
	for _, line := range []string{
		"--ppn 2 --pset x=2-3,0 -n 3 a b : -n 1 c",
		"--ppn 2 --pset x=2-3,0 --wdir /elsewhere -x A=1 --bind-to core -v --report -n 3 a b : -n 1 -x B=2 c",
	} {
		if got := of(line); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	for line, want := range map[string]string{"--map-by node -n 2 a": "--map-by node", "-n 2 a": ""} {
		if got := of(line).Mapping; got != want {
			t.Errorf("%s: the mapping is %q, want %q", line, got, want)
		}
	}
}

// TestDefaultsOfJob: the defaults that depend on nothing are those of the documentation, and a flag
// of the user replaces each of them.
func TestDefaultsOfJob(t *testing.T) {
	const flags = "--join-timeout 7 --heartbeat 11 --grace 3"
	for line, want := range map[string]string{"a": "1m0s 15s 10s", flags + " a": "7s 11s 3s"} {
		j := parsed(t, line)
		set := j.joinSettings("n")
		got := strings.Join([]string{set.Timeout.String(), set.Heartbeat.String(), set.Grace.String()}, " ")
		if got != want || j.run.Monitor.Heartbeat != set.Heartbeat || j.run.Grace != set.Grace {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestCommandOfMonitor: ibrun ps shows the words of all programs, and the discovery file has the
// name of the host.
func TestCommandOfMonitor(t *testing.T) {
	set := parsed(t, "--metrics :0 --metrics-sd d-%h%%.json -n 1 a b : -n 2 c").runSettings("n1")
	if got := set.Monitor.Command; !slices.Equal(got, []string{"a", "b", ":", "c"}) {
		t.Errorf("the command is %q", got)
	}
	if got := set.Monitor.Metrics.DiscoveryFile; got != "d-n1%.json" {
		t.Errorf("the discovery file is %s", got)
	}
}
