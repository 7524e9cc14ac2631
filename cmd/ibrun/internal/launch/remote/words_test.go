package remote

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func options(env map[string]string) *Options {
	return &Options{Program: "/opt/my ibrun/ibrun", Lookup: func(name string) string { return env[name] }}
}

// The commands are those that a user would type.
func TestCommands(t *testing.T) {
	o := options(map[string]string{"OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"})
	host := Host{Node: 1, Name: "b", User: "me"}
	want := "ssh -x -T -o BatchMode=yes -o ConnectTimeout=8 -o ConnectionAttempts=10 -l me b ''\\''/opt/my ibrun/ibrun'\\'' node'"
	if got := quoted(o.agentCommand(host, o.Program)); got != want {
		t.Errorf("ssh: got %s\nwant %s", got, want)
	}
	o.Agent = []string{"ip", "netns", "exec"}
	want = "ip netns exec b '/opt/my ibrun/ibrun' node"
	if got := quoted(o.agentCommand(Host{Name: "b"}, o.Program)); got != want {
		t.Errorf("launch agent: got %s\nwant %s", got, want)
	}
	o.Program = "/usr/bin/ibrun"
	srun := strings.Join(o.srunCommand([]Host{{Name: "n1"}, {Name: "n2"}}, 0), " ")
	for _, part := range []string{"srun --overlap --nodes=2 --ntasks=2 ", " --ntasks-per-node=1 --nodelist=n[1-2] --mpi=none ",
		" /usr/bin/ibrun node"} {
		if !strings.Contains(srun, part) {
			t.Errorf("%s lacks %q", srun, part)
		}
	}
	o.Groups = 2
	if srun := strings.Join(o.srunCommand([]Host{{Name: "n1"}}, 1), " "); !strings.Contains(srun, " --het-group=1 ") {
		t.Errorf("a component of a heterogeneous job: %s", srun)
	}
}

// The hosts of large jobs are abbreviated as Slurm does.
func TestFoldedNames(t *testing.T) {
	for names, want := range map[string]string{
		"a":                          "a",
		"n1":                         "n1",
		"n1 n2 n3 n7":                "n[1-3,7]",
		"n8 n9 n10 n11":              "n[8-11]",
		"n08 n09 n10 n1":             "n[08-10,1]",
		"n3 n2 n2x n3":               "n[3,2],n2x,n3",
		"node node1 node2":           "node,node[1-2]",
		"node1 node node2":           "node1,node,node2",
		"r1n1 r1n2 r2n1 r2n2 1 2":    "r1n[1-2],r2n[1-2],[1-2]",
		"n9999999999 n999999999":     "n9999999999,n999999999",
		"n999999999 n1000000000 n-1": "n[999999999-1000000000],n-1",
	} {
		var hosts []Host
		for _, name := range strings.Fields(names) {
			hosts = append(hosts, Host{Name: name})
		}
		if got := foldedNames(hosts); got != want {
			t.Errorf("%s: got %s, want %s", names, got, want)
		}
	}
}

// srun learns its job, but none of the options of the job.
func TestSrunVariables(t *testing.T) {
	o := options(map[string]string{"SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "SLURM_NTASKS": "4", "SLURM_MEM_PER_CPU": "1"})
	if got := o.srunVariables(); !slices.Equal(got, []string{"SLURM_JOB_ID=7", "SLURM_CONF=/c"}) {
		t.Errorf("got %q", got)
	}
	if got := options(nil).srunVariables(); got == nil || len(got) > 0 {
		t.Errorf("without Slurm's variables: %#v, want an empty list", got)
	}
}

func TestGraceOf(t *testing.T) {
	for config, want := range map[string]time.Duration{
		"Configuration data\nKillOnBadExit           = 0\nKillWait                = 30 sec\n": 28 * time.Second,
		"KillWait = 3 sec": 1500 * time.Millisecond,
		"KillWait = 0 sec": 0,
		"KillWait =":       0,
		"KillWait = many":  0,
		"":                 0,
	} {
		if got := graceOf(config); got != want {
			t.Errorf("%q: %v, want %v", config, got, want)
		}
	}
}

func TestField(t *testing.T) {
	text := "NodeName=n2 Arch=x86_64 NodeAddr=10.0.0.2 NodeHostName=host Version=22.05.8"
	if got := field(text, "NodeAddr"); got != "10.0.0.2" {
		t.Errorf("got %q", got)
	}
	if got := field("Node n3 not found", "NodeAddr"); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestUnreachable: a host that cannot be reached now, and one without ibrun, are distinguished from
// other failures.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		output               string
		code                 int
		unreachable, missing bool
	}{
		{"ssh: Could not resolve hostname b: Name or service not known", 255, true, false},
		{"ssh: connect to host b port 22: Connection refused", 255, true, false},
		{"kex_exchange_identification: read: Connection reset by peer", 255, true, false},
		{"me@b: Permission denied (publickey).", 255, false, false},
		{"Host key verification failed.", 255, false, false},
		{"something else", 255, false, false},
		{"bash: line 1: /usr/bin/ibrun: No such file or directory", 127, false, true},
		{"slurmstepd: error: execve(): /usr/bin/ibrun: No such file or directory", 2, false, true},
	} {
		e := &Error{Host: "b", Code: c.code, ended: true}
		e.explain("Welcome\n"+c.output, "/usr/bin/ibrun")
		if e.unreachable != c.unreachable || e.missing != c.missing {
			t.Errorf("%q: unreachable %v, missing %v", c.output, e.unreachable, e.missing)
		}
		if strings.Contains(e.Error(), "HOST") || strings.Contains(e.Error(), "PROGRAM") {
			t.Errorf("%q: %v", c.output, e)
		}
	}
}
