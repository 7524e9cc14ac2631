package cli

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

func parse(line string, env map[string]string) (*Options, error) {
	return Parse(strings.Fields(line), func(name string) (string, bool) {
		value, set := env[name]
		return value, set
	})
}

func TestParse(t *testing.T) {
	one := func(p Program) Options { return Options{Programs: []Program{p}} }
	for _, c := range []struct {
		line string
		env  map[string]string
		want Options
	}{
		{"prog", nil, one(Program{Args: []string{"prog"}})},
		{"-n 4 prog -n 5 --label", nil, one(Program{Ranks: 4, Args: []string{"prog", "-n", "5", "--label"}})},
		{"--np=4 -- -v", nil, one(Program{Ranks: 4, Args: []string{"-v"}})},
		{"-- top", nil, one(Program{Args: []string{"top"}})},
		{"-n 1 a x : --np 2 --wdir /d -x A=1 -x B -x C -x D -x E= b", map[string]string{"B": "2", "D": ""}, Options{Programs: []Program{
			{Ranks: 1, Args: []string{"a", "x"}},
			{Ranks: 2, Args: []string{"b"}, Dir: "/d", Env: []string{"A=1", "B=2", "D=", "E="}, Unset: []string{"C"}},
		}}},
		{"-l --output o.%r.%h.%% --bind-to core --timeout 90 --dry-run -v --dlv 0,2-3 --gdb 1 p", nil, Options{
			Programs: []Program{{Args: []string{"p"}}}, Output: Output{true, "o.%r.%h.%%"},
			Policy: placement.Policy{Bind: placement.Core}, Limits: Limits{Timeout: 90 * time.Second}, DryRun: true, Verbose: true,
			Debug: Debug{Delve: Ranges{{0, 0}, {2, 3}}, GDB: Ranges{{1, 1}}}}},
		{"-timeout 1h30m --label=false p", map[string]string{"IBRUN_LABEL": "1"}, Options{
			Programs: []Program{{Args: []string{"p"}}}, Limits: Limits{Timeout: 90 * time.Minute}}},
		{"p", map[string]string{"IBRUN_NP": "3", "IBRUN_DRY_RUN": "true", "IBRUN_BIND_TO": "none", "IBRUN_TIMEOUT": "12.5"}, Options{
			Programs: []Program{{Ranks: 3, Args: []string{"p"}}}, Policy: placement.Policy{Bind: placement.None}, DryRun: true,
			Limits: Limits{Timeout: 12500 * time.Millisecond}}},
		{"-n 2 p", map[string]string{"IBRUN_N": "3"}, one(Program{Ranks: 2, Args: []string{"p"}})},
		{"p", map[string]string{"IBRUN_METRICS_HOSTS": ".example.org"}, Options{Programs: []Program{{Args: []string{"p"}}},
			Metrics: Metrics{Hosts: []string{".example.org"}}}}, // a cluster sets it for jobs with metrics
		{"--metrics 1 --metrics-hosts a,.b --metrics-hosts c p", map[string]string{"IBRUN_METRICS_HOSTS": "d"}, Options{
			Programs: []Program{{Args: []string{"p"}}}, Metrics: Metrics{Address: "1", Hosts: []string{"a", ".b", "c"}}}},
		{"--rendezvous h:7777 --node 1/3 --node-name b --secret-file f --join-timeout 50 -n 3 p", nil, Options{
			Programs: []Program{{Ranks: 3, Args: []string{"p"}}}, Node: Node{Rendezvous: "h:7777", Number: 1, Count: 3,
				Name: "b", SecretFile: "f", JoinTimeout: 50 * time.Second}}},
		{"-n 1 a : -n 1 " +
			"b", map[string]string{"IBRUN_NODE": "0/2", "IBRUN_RENDEZVOUS": "[::1]:1", "IBRUN_SECRET_FILE": "f"}, Options{
			Programs: []Program{{Ranks: 1, Args: []string{"a"}}, {Ranks: 1,
				Args: []string{"b"}}}, Node: Node{Rendezvous: "[::1]:1", Count: 2, SecretFile: "f"}}},
		{"-map-by ppr:2:socket:PE=4 -report-bindings --rank-file f p", nil, Options{Programs: []Program{{Args: []string{"p"}}},
			Policy: placement.Policy{Map: placement.Package, PerObject: 2, CPUs: 4, Report: true, FilePath: "f"}}},
		{"-n 2 p", map[string]string{"IBRUN_TASKS_PER_NODE": "4", "IBRUN_OFFSET": "1"}, Options{Programs: []Program{{Ranks: 2,
			Args: []string{"p"}}}, Policy: placement.Policy{PerNode: 4, Offset: 1, Packed: true}}},
		{"--node 0/3 --ppn 2 p", map[string]string{"IBRUN_RENDEZVOUS": "h:1", "IBRUN_SECRET_FILE": "f"}, Options{
			Programs: []Program{{Ranks: 6, Args: []string{"p"}}}, Node: Node{Rendezvous: "h:1", Count: 3, SecretFile: "f"},
			Policy: placement.Policy{PerNode: 2}}},
		{"--node 0/1 p", nil, Options{Programs: []Program{{Args: []string{"p"}}}, Node: Node{Count: 1}}},
		{"-l -n 2 a : -n 1 b", map[string]string{"IBRUN_LABEL": "false"}, Options{Output: Output{Label: true}, Programs: []Program{
			{Ranks: 2, Args: []string{"a"}}, {Ranks: 1, Args: []string{"b"}}}}},
		{"--hosts a:1,b --hosts c:2 --transport shm --transport=tcp,rdma " +
			"--tcp-interfaces eth0 --tcp-interfaces 10.0.0.0/8 --dlv 0 --dlv 2-3 p", nil, Options{Hosts: Hosts{List: "a:1,b,c:2"},
			Network: Network{Transports: "shm,tcp,rdma", Interfaces: "eth0,10.0.0.0/8"}, Debug: Debug{Delve: Ranges{{0, 0}, {2, 3}}},
			Programs: []Program{{Args: []string{"p"}}}}},
		{"--transport tcp --transport auto p", nil, Options{Network: Network{Transports: "auto"},
			Programs: []Program{{Args: []string{"p"}}}}},
		{"--transport auto --transport tcp p", nil, Options{Network: Network{Transports: "tcp"},
			Programs: []Program{{Args: []string{"p"}}}}},
		{"-host a --host b,a p", nil, Options{Hosts: Hosts{List: "a:1,b:1,a:1"}, Programs: []Program{{Args: []string{"p"}}}}},
		{"--hostfile f --machinefile g p", map[string]string{"IBRUN_HOSTFILE": "h"}, Options{
			Hosts: Hosts{Files: []string{"f", "g"}}, Programs: []Program{{Args: []string{"p"}}}}},
		{"--grace 30 p", map[string]string{"IBRUN_FAILURE_GRACE": "20000ms"}, Options{
			Limits:   Limits{Grace: 30 * time.Second, GraceGiven: true, FailureGrace: 20 * time.Second},
			Programs: []Program{{Args: []string{"p"}}}}},
	} {
		c.want.Limits.Grace = cmp.Or(c.want.Limits.Grace, defaultGrace)
		c.want.Limits.FailureGrace = cmp.Or(c.want.Limits.FailureGrace, defaultFailureGrace)
		got, err := parse(c.line, c.env)
		c.want.DeadlockReport = deadlockReport
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%q with %v:\n got %+v, %v\nwant %+v", c.line, c.env, got, err, c.want)
		}
	}
}

// TestFlagWinsOverVariable: a flag on the command line overrides its environment form, even if the flag may be repeated,
// takes a list, or switches something off.
func TestFlagWinsOverVariable(t *testing.T) {
	for _, c := range []struct{ variable, value, line string }{
		{"IBRUN_REPORT", "a.json", "--report p"},
		{"IBRUN_REPORT", "a.json", "--report=b.html,c.json p"},
		{"IBRUN_REPORT", "a.json", "--report=- p"},
		{"IBRUN_REPORT", "a.txt", "--report=false p"},
		{"IBRUN_PSET", "ocean=0-3", "--pset ocean=1 p"},
		{"IBRUN_PSET", "ocean=0-3", "--pset land=1 --pset ice=2 p"},
		{"IBRUN_X", "A=1", "-x B=2 --env C=3 p"},
		{"IBRUN_ENV", "A=1", "-n 1 -x A p : -n 2 -x B=2 q"},
		{"IBRUN_NP", "many", "-n 2 p"},
		{"IBRUN_DLV", "0-3", "--dlv 1 p"},
		{"IBRUN_CPU_BIND", "verbose", "--cpu-bind none p"},
		{"IBRUN_BYNODE", "1", "--bynode=false p"},
		{"IBRUN_TRANSPORT", "pigeon", "--transport shm p"},
		{"IBRUN_HOSTS", "a", "--hosts b --hosts c p"},
		{"IBRUN_METRICS_HOSTS", "a", "--metrics 1 --metrics-hosts b --metrics-hosts c p"},
	} {
		want, err := parse(c.line, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parse(c.line, map[string]string{c.variable: c.value}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q with %s=%s:\n got %+v, %v\nwant %+v", c.line, c.variable, c.value, got, err, want)
		}
	}
}

func TestRefusedMetricsHosts(t *testing.T) {
	for line, want := range map[string]string{"--metrics-hosts a p": "--metrics-hosts requires --metrics",
		"--metrics 1 --metrics-hosts a,b:80 p": "want names of hosts without ports"} {
		if _, err := parse(line, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		line, want string
	}{
		{"", "no program"},
		{"-n 2", "no program"},
		{"-n 2 a :", "no program"},
		{"-n 2 a : -n 1", "no program"},
		{"-n 2 a : b", "each needs its own -n"},
		{"-n 0 p", "at least 1 rank"},
		{"-n -3 p", "at least 1 rank"},
		{"-n 2000000 p", "at most 1048576 ranks"},
		{"-n 99999999999999999999 p", "at most 1048576 ranks"},
		{"-n two p", "not a number"},
		{"-n", "-n needs a value: -n N"},
		{"--lable p", "did you mean --label?"},
		{"-npp 3 p", "did you mean -np?"},
		{"--ntask 3 p", "did you mean --ntasks?"},
		{"--deadl 3 p", "did you mean --deadlock-report?"},
		{"--dryrun p", "did you mean --dry-run?"},
		{"--time-out=3 p", "did you mean --timeout?"},
		{"--frobnicate p", "unknown flag --frobnicate (ibrun --help lists the flags)"},
		{"-n 1 a : --lable -n 1 b", "unknown flag --lable"},
		{"-n 1 a : --label -n 1 b", "before the first program"},
		{"--node 2/2 -n 2 p", "K from 0 to N-1"},
		{"--node -1/2 -n 2 p", "K from 0 to N-1"},
		{"--node 1 -n 2 p", "K from 0 to N-1"},
		{"--rendezvous h:0 -n 2 p", "port from 1"},
		{"--rendezvous h -n 2 p", "port from 1"},
		{"--rendezvous h:1 p", "--node K/N"},
		{"--node 0/2 --secret-file f -n 2 p", "need --rendezvous"},
		{"--node 0/2 --rendezvous h:1 -n 2 p", "need --secret-file"},
		{"--node 0/2 --rendezvous h:1 --secret-file f p", "requires -n"},
		{"--node 0/3 --rendezvous h:1 --secret-file f -n 2 p", "fewer than 3 nodes"},
		{"--hosts a --hostfile f p", "leave one out"},
		{"--node 0/2 --hosts a --rendezvous h:1 --secret-file f -n 2 p", "or --node"},
		{"--node 0/2 --hostfile f --rendezvous h:1 --secret-file f -n 2 p", "or --node"},
		{"--node-name a/b p", "without spaces"},
		{"-n 1 a : --node 0/2 -n 1 b", "before the first program"},
		{"--checksum maybe p", "want on or off"},
		{"--heartbeat 0.5 p", "from 1s to 1h0m0s"},
		{"--timeout 0 p", "a positive duration"},
		{"--timeout soon p", "a positive duration"},
		{"--bind-to board p", "or none"},
		{"--map-by p", "unknown object"},
		{"-N 2 p", "flag -N has several meanings: the number of nodes in Slurm (ibrun uses all nodes of the allocation: leave it out"},
		{"-n 1 a : --map-by numa -n 1 b", "before the first program"},
		{"--output %d p", "%r for the rank"}, {"--output x% p", "%r for the rank"},
		{"--metrics :0 --metrics-sd %r p", "want %h for the host"},
		{"--dlv 3-1 p", "backwards"},
		{"-x =1 p", "needs a name"},
		{"---n p", "unknown flag ---n"},
		{"--label=perhaps p", "true or false"},
		{"--n= p", "not a number"},
		{"--transport= p", "want a list of transports"},
		{"--transport shm,pigeon p", "pigeon"},
		{"--transport auto,shm p", "unknown transport"},
		{"--encrypt --transport rdma p", "RDMA does not encrypt: add tcp to --transport rdma"},
		{"--transport shm,rdma --encrypt p", "RDMA does not encrypt"},
		{"--encrypt=maybe p", "want true or false"},
	} {
		if got, err := parse(c.line, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %+v, error %v, want an error with %q", c.line, got, err, c.want)
		}
	}
	_, err := parse("p", map[string]string{"IBRUN_N": "many"})
	if err == nil || !strings.Contains(err.Error(), "IBRUN_N") {
		t.Errorf("IBRUN_N=many: error %v does not name the variable", err)
	}
}

// The format of messages is known even if the command line is wrong, as far as it is said before the error.
func TestLogFormat(t *testing.T) {
	for _, c := range []struct {
		line, variable string
		json, fails    bool
	}{
		{"p", "", false, false},
		{"--log-format json p", "", true, false},
		{"--log-format=json p --log-format text", "", true, false},
		{"p", "json", true, false},
		{"--log-format text p", "json", false, false},
		{"--log-format json p", "xml", true, false},
		{"p", "xml", false, true},
		{"--log-format xml p", "", false, true},
		{"--log-format xml p", "json", true, true},
		{"--log-format json", "", true, true},
		{"-n 2 --log-format json --bogus p", "", true, true},
		{"--log-format json -n", "", true, true},
		{"--log-format json -n 0 p", "", true, true},
		{"--log-format json --timeout 0 p", "", true, true},
		{"--bogus --log-format json p", "", false, true},
		{"--bogus p", "json", true, true},
		{"-n 1 p : -n 2 --log-format json q", "", false, true},
	} {
		o, err := parse(c.line, map[string]string{"IBRUN_LOG_FORMAT": c.variable})
		if o.LogJSON != c.json || (err != nil) != c.fails {
			t.Errorf("%q with %q: JSON %v, %v", c.line, c.variable, o.LogJSON, err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"-h", "--help p"} {
		if _, err := parse(line, nil); !errors.Is(err, ErrHelp) {
			t.Errorf("%q: error %v, want ErrHelp", line, err)
		}
	}
	page := Page(nil)
	for _, want := range []string{"-n, -np N", "--dry-run", "--wdir DIR", "-x, --env NAME[=VALUE]", "124"} {
		if !strings.Contains(page.Help(), want) {
			t.Errorf("usage does not mention %q", want)
		}
	}
}

// TestReport: --report is a boolean flag, and also accepts file names with a known extension.
func TestReport(t *testing.T) {
	none := LookupEnv(nil)
	for _, c := range []struct {
		words string
		want  bool
		files []string
	}{
		{"--report x", true, nil},
		{"--report=a.json x", true, []string{"a.json"}},
		{"--report=a.html,b.json x", true, []string{"a.html", "b.json"}},
		{"--report=a.json --report=false x", false, nil},
		{"--report=a.json --report=- x", true, nil},
		{"--report=- --report=a.json x", true, []string{"a.json"}},
	} {
		o, err := Parse(strings.Fields(c.words), none)
		if err == nil && o.Report.Bare != strings.HasSuffix(c.words, "- x") {
			t.Errorf("%s: Report.Bare is %v", c.words, o.Report.Bare)
		}
		if err != nil || o.Report.Enabled != c.want || !slices.Equal(o.Report.Files, c.files) {
			t.Errorf("%s: %+v, %v", c.words, o, err)
		}
	}
	if _, err := Parse([]string{"--report=a.txt", "x"}, none); err == nil {
		t.Error("a report as a.txt was accepted")
	}
}
