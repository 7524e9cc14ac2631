package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bashAsks completes $1 as bash does: it calls the function with the words of the line, split at = and : too.
const bashAsks = `source <(ibrun completion bash) || exit
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() rest=$1
while [[ $rest =~ ^[[:blank:]]*([^[:blank:]=:]+|[=:]+)(.*)$ ]]; do
	COMP_WORDS+=("${BASH_REMATCH[1]}") rest=${BASH_REMATCH[2]}
done
case $1 in *[[:blank:]]) COMP_WORDS+=("") ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_ibrun
printf '%s\n' "${COMPREPLY[@]}"`

// zshAsks completes $1 with the function, and prints what it gives to zsh's own commands.
const zshAsks = `source <(ibrun completion zsh) || exit
compadd() { print -l -- "${(@P)@[-1]}" }
compset() { : }
_files() { [[ $1 == -/ ]] && print -l -- *(N/) || print -l -- *(N) }
_command_names() { print true }
words=(${(s: :)1}) CURRENT=${#words}
[[ $1 == *' ' ]] && words+=('') CURRENT=${#words}
_ibrun`

// fishAsks completes $1 as fish does.
const fishAsks = `ibrun completion fish | source
complete -C $argv[1]`

// TestCompletion: the shells complete flags, values, hosts, files and programs.
func TestCompletion(t *testing.T) {
	t.Parallel()
	needTools(t, "bash", "zsh", "fish")
	dir := t.TempDir()
	for _, name := range []string{"hostfile-1", "folder/x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("zeta1 slots=2\nzeta2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, want, bash string }{
		{"ibrun --dry", "--dry-run", ""},
		{"ibrun -n 2 --bind-to pack", "package", ""},
		{"ibrun --bind-to=pack", "--bind-to=package", "package"},
		{"ibrun --transport shm,tc", "shm,tcp", ""},
		{"ibrun --hosts zeta1,zet", "zeta1,zeta2", ""},
		{"ibrun --hosts zeta1:2,zet", "zeta1:2,zeta2", "2,zeta2"},
		{"ibrun --hostfile hostf", "hostfile-1", ""},
		{"ibrun --wdir fol", "folder", ""},
		{"ibrun compl", "completion", ""},
		{"ibrun completion fi", "fish", ""},
		{"ibrun --ntasks 4 tru", "true", ""},
		{"ibrun -n 1 true : --wdi", "--wdir", ""},
	} {
		for shell, command := range map[string][]string{
			"bash": {"bash", "--norc", "-c", bashAsks, "bash", c.line},
			"zsh":  {"zsh", "-f", "-c", zshAsks, "zsh", c.line},
			"fish": {"fish", "--no-config", "-c", fishAsks, c.line},
		} {
			want := c.want
			if shell == "bash" && c.bash != "" {
				want = c.bash
			}
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "IBRUN_HOSTFILE="+filepath.Join(dir, "hostfile-1"), "TERM=dumb")
			out, err := cmd.CombinedOutput()
			if found := candidateWords(string(out)); err != nil || !slices.Contains(found, want) {
				t.Errorf("%s completes %q to %q, %v, want %s", shell, c.line, found, err, want)
			}
		}
	}
}

// candidateWords returns the first word of each line, without the slash of a folder.
func candidateWords(out string) (words []string) {
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 0 {
			words = append(words, strings.TrimSuffix(fields[0], "/"))
		}
	}
	return words
}
