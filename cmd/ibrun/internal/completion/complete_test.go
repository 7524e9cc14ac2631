package completion

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
)

// newTestCompleter returns a completer for a machine with these files.
func newTestCompleter(t *testing.T, variables map[string]string, content map[string]string) *completer {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &completer{commands: testCommands(),
		root: root, home: filepath.Join(root, "home"),
		getenv: func(name string) string { return strings.ReplaceAll(variables[name], "ROOT", root) }}
}

// testCommands are commands with a flag, with words, with both, and with none.
func testCommands() []manual.Page {
	flags := []manual.Group{{Flags: []manual.Flag{{Names: []string{"n", "np"}, Help: "ranks"}, {Names: []string{"json"}}}}}
	return []manual.Page{{Name: "bench", Words: []string{"bw"}, Groups: flags}, Page(), {Name: "doctor", Groups: flags},
		{Name: "help"}, {Name: "top"}, {Name: "topo"}}
}

// candidates completes a line and returns the words without descriptions.
func candidates(c *completer, line string) string {
	found := c.complete(strings.Split(line, " "))
	for i := range found {
		found[i], _, _ = strings.Cut(found[i], "\t")
	}
	return strings.Join(found, " ")
}

func TestComplete(t *testing.T) {
	c := newTestCompleter(t, nil, map[string]string{"etc/hosts": "127.0.0.1 localhost\n::1 ip6\n10.0.0.1 n1 n1.example # " +
		"one\n10.0.0.2 n2"})
	for line, want := range map[string]string{
		"to":                             "top topo :commands :files",
		"top ":                           ":files",
		"completion ":                    "bash fish zsh",
		"completion b":                   "bash",
		"doctor --j":                     "--json",
		"bench bw -n":                    "-n -np",
		"bench ":                         "bw :files",
		"doctor ":                        ":files",
		"help to":                        "top topo",
		"--dr":                           "--dry-run",
		"--ntasks-per-c":                 "--ntasks-per-core",
		"--allow":                        "--allow-run-as-root",
		"-n 4 --chec":                    "--checksum --check",
		"--bind-to n":                    "none numa node",
		"--bind-to=n":                    "--bind-to=none --bind-to=numa --bind-to=node",
		"-bind-to=non":                   "-bind-to=none",
		"--transport shm,t":              "shm,tcp",
		"--transport=shm,t":              "--transport=shm,tcp",
		"--hosts n":                      "n1 n1.example n2",
		"--hosts n1:2,n2":                "n1:2,n2",
		"-H=n2":                          "-H=n2",
		"-n ":                            "",
		"-n 2 --hostfile f":              ":files",
		"--wdir ":                        ":directories",
		"--chdir /":                      ":directories",
		"-genv A ":                       "",
		"-genv A 1 --dry":                "--dry-run",
		"--checksum o":                   "on off",
		"--launcher-exec s":              ":commands :files",
		"-n 2 p":                         ":commands :files",
		"-n 2 ./p --dr":                  ":files",
		"-n 2 ./p : --wd":                "--wdir --wd",
		"-- to":                          ":commands :files",
		"--report=":                      ":files",
		"--no-such-flag x":               ":commands :files",
		"--nproc-per-node g":             "gpu",
		"-x A=1 --outp":                  "--output",
		"--bcast --dry-r":                "--dry-run",
		"--multi-prog tasks":             ":commands :files",
		"--completion=x --no-such-thing": "",
	} {
		got := candidates(c, line)
		if line == "-n 2 ./p : --wd" {
			got, want = strings.Fields(got)[0], "--wdir"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	all := candidates(c, "")
	for _, want := range []string{"topo", "--label", "-n", programs, files} {
		if !slices.Contains(strings.Fields(all), want) {
			t.Errorf("an empty line is not completed to %s", want)
		}
	}
	if slices.Contains(strings.Fields(all), "--ntasks") {
		t.Error("an empty line is completed to flags of other launchers")
	}
}

// TestHosts: names come from all files that name hosts. Hashed names, patterns and this machine are left out.
func TestHosts(t *testing.T) {
	content := map[string]string{
		"home/.ssh/known_hosts": "# c\n|1|hash= ssh-rsa AAA\nk1,10.0.0.9 ssh-rsa AAA\n[k2]:2222 ssh-rsa AAA\n@revoked " +
			"k3 ssh-rsa AAA\nbroken\n",
		"home/.ssh/config":        "Host c1 c*\n  HostName x\nhost=c2\nHost\n",
		"etc/ssh/ssh_known_hosts": "k4 ssh-rsa AAA\n!no ssh-rsa A\n",
		"hosts":                   "h1 slots=2\nh2:3\n",
		"bad":                     "h1 slots=x\n",
	}
	for _, e := range []struct {
		variables map[string]string
		line      string
		want      []string
	}{
		{nil, "--hosts ", nil},
		{map[string]string{"IBRUN_HOSTFILE": "ROOT/hosts"}, "-w ", []string{"h1", "h2"}},
		{map[string]string{"HYDRA_HOST_FILE": "ROOT/hosts"}, "--hosts ", []string{"h1", "h2"}},
		{map[string]string{"IBRUN_HOSTFILE": "ROOT/bad"}, "--hosts ", nil},
		{map[string]string{"IBRUN_HOSTFILE": "ROOT/none"}, "--hosts ", nil},
		{map[string]string{"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "s[1-2]", "SLURM_NNODES": "2",
			"SLURM_JOB_CPUS_PER_NODE": "2(x2)"}, "--hosts ", []string{"s1", "s2"}},
		{nil, "--hostfile ROOT/hosts --hosts ", []string{"h1", "h2"}},
		{nil, "-f=ROOT/hosts --hosts ", []string{"h1", "h2"}},
	} {
		c := newTestCompleter(t, e.variables, content)
		want := append([]string{"10.0.0.9", "c1", "c2", "k1", "k2", "k3", "k4"}, e.want...)
		slices.Sort(want)
		if got := candidates(c, strings.ReplaceAll(e.line, "ROOT", c.root)); got != strings.Join(want, " ") {
			t.Errorf("%v, %q: %q, want %q", e.variables, e.line, got, want)
		}
	}
}

func TestCommand(t *testing.T) {
	for _, e := range []struct {
		line   string
		code   int
		stdout string
		stderr string
	}{
		{"bash", 0, "complete -F _ibrun ibrun", ""},
		{"zsh", 0, "#compdef ibrun", ""},
		{"fish", 0, "complete -c ibrun", ""},
		{"--help", 0, "usage: ibrun completion bash|zsh|fish", ""},
		{"words --dr", 0, "--dry-run\tprint where", ""},
		{"tcsh", 2, "", `want bash, zsh or fish, not "tcsh"`},
		{"bash zsh", 2, "", "want bash, zsh or fish"},
		{"", 2, "", "want bash, zsh or fish"},
	} {
		var out, errs bytes.Buffer
		code := Main(strings.Fields(e.line), nil, testCommands(), &out, &errs)
		if code != e.code || !strings.Contains(out.String(), e.stdout) || !strings.Contains(errs.String(), e.stderr) {
			t.Errorf("%q: %d\n%s%s", e.line, code, out.String(), errs.String())
		}
	}
}

// FuzzHosts: no text of a file crashes, and every name is one that a host can have.
func FuzzHosts(f *testing.F) {
	f.Add("k1,[k2]:22 ssh-rsa A\nHost a b\n10.0.0.1 c # d\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range slices.Concat(knownHosts(text), configHosts(text), etcHosts(text)) {
			if name == "" || name[0] == '-' || strings.ContainsAny(name, " \t\n:,*|/") {
				t.Errorf("%q: host %q", text, name)
			}
		}
	})
}

// FuzzComplete: no line crashes.
func FuzzComplete(f *testing.F) {
	for _, line := range []string{"", "-", "--", "--hosts=a,b", "-genv A", "-n 2 p : ", ":", "=", "--=", "top x"} {
		f.Add(line)
	}
	c := &completer{commands: testCommands(), root: "/nonexistent", getenv: func(string) string { return "" }}
	f.Fuzz(func(t *testing.T, line string) { c.complete(strings.Split(line, " ")) })
}
