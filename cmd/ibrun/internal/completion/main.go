package completion

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// Exit codes.
const exitUsage = 2

const usage = `usage: ibrun completion bash|zsh|fish   print the script by which the shell completes command lines of ibrun

  bash: echo 'source <(ibrun completion bash)' >>~/.bashrc
  zsh:  echo 'source <(ibrun completion zsh)' >>~/.zshrc                (after compinit)
  fish: ibrun completion fish >~/.config/fish/completions/ibrun.fish
`

// Main is ibrun completion args... It returns the exit code. commands are the names of ibrun's subcommands.
func Main(args, env, commands []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) > 0 && (args[0] == "--help" || args[0] == "-help" || args[0] == "-h" || args[0] == "help"):
		fmt.Fprint(stdout, usage)
		return 0
	case len(args) > 0 && args[0] == "words":
		home, _ := os.UserHomeDir() // empty: there are no files of the user
		c := &completer{commands: commands, getenv: cli.Lookup(env), home: home, root: "/"}
		for _, w := range c.complete(args[1:]) {
			fmt.Fprintln(stdout, w)
		}
		return 0
	case len(args) == 1 && scripts()[args[0]] != "":
		fmt.Fprint(stdout, scripts()[args[0]])
		return 0
	}
	fmt.Fprintf(stderr, "ibrun completion: want bash, zsh or fish, not %q\n%s", strings.Join(args, " "), usage)
	return exitUsage
}

// scripts returns the script of each shell.
func scripts() map[string]string {
	return map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
}
