package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
)

// lineEnd is what the shells print after the candidates of a line.
const lineEnd = "--- end of the candidates ---\n"

// bashAsks completes its arguments as bash does: it calls the function with the words of each line, split at = and : too.
const bashAsks = `source <(ibrun completion bash) || exit
for line; do
	COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=() COMPREPLY=() rest=$line
	while [[ $rest =~ ^[[:blank:]]*([^[:blank:]=:]+|[=:]+)(.*)$ ]]; do
		COMP_WORDS+=("${BASH_REMATCH[1]}") rest=${BASH_REMATCH[2]}
	done
	case $line in *[[:blank:]]) COMP_WORDS+=("") ;; esac
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_ibrun
	printf '%s\n' "${COMPREPLY[@]}" "$END"
done`

// zshAsks completes its arguments with the function, and prints what it gives to zsh's own commands.
const zshAsks = `source <(ibrun completion zsh) || exit
compadd() { print -l -- "${(@P)@[-1]}" }
compset() { : }
_files() { [[ $1 == -/ ]] && print -l -- *(N/) || print -l -- *(N) }
_command_names() { print true }
for line; do
	words=(${(s: :)line}) CURRENT=${#words}
	[[ $line == *' ' ]] && words+=('') CURRENT=${#words}
	_ibrun
	print -r -- $END
done`

// fishAsks completes its arguments as fish does.
const fishAsks = `ibrun completion fish | source
for line in $argv
	complete -C $line
	echo $END
end`

// TestCompletion: the shells complete flags, values, hosts, files and programs.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		needtest.Program(t, shell, shell)
	}
	dir := t.TempDir()
	for _, name := range []string{"hostfile-1", "folder/x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("zeta1 slots=2\nzeta2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct{ line, want, bash string }{
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
	}
	var lines []string
	for _, c := range cases {
		lines = append(lines, c.line)
	}
	for shell, command := range map[string][]string{
		"bash": {"bash", "--norc", "-c", bashAsks, "bash"},
		"zsh":  {"zsh", "-f", "-c", zshAsks, "zsh"},
		"fish": {"fish", "--no-config", "-c", fishAsks},
	} {
		cmd := exec.Command(command[0], slices.Concat(command[1:], lines)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "IBRUN_HOSTFILE="+filepath.Join(dir, "hostfile-1"), "TERM=dumb",
			"END="+strings.TrimSpace(lineEnd))
		out, err := cmd.CombinedOutput()
		answers := strings.SplitAfter(string(out), lineEnd)
		if err != nil || len(answers) != len(cases)+1 {
			t.Errorf("%s completes %d of %d lines, %v:\n%s", shell, len(answers)-1, len(cases), err, out)
			continue
		}
		for i, c := range cases {
			want := c.want
			if shell == "bash" && c.bash != "" {
				want = c.bash
			}
			if found := candidateWords(answers[i]); !slices.Contains(found, want) {
				t.Errorf("%s completes %q to %q, want %s", shell, c.line, found, want)
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
