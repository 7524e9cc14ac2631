package completion

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
)

// Exit codes.
const exitUsage = 2

// Page returns the description of the command.
func Page() manual.Page {
	return manual.Page{Name: "completion", Summary: "print the script by which bash, zsh or fish completes command lines of ibrun",
		Forms: []string{"completion bash|zsh|fish"}, Words: []string{"bash", "fish", "zsh"},
		Topics: []manual.Topic{{Title: "To install it", Entries: []manual.Entry{
			{Term: "bash", Text: "echo 'source <(ibrun completion bash)' >>~/.bashrc"},
			{Term: "zsh", Text: "echo 'source <(ibrun completion zsh)' >>~/.zshrc (after compinit)"},
			{Term: "fish", Text: "ibrun completion fish >~/.config/fish/completions/ibrun.fish"},
		}}},
	}
}

// Main is ibrun completion args... It returns the exit code. commands are ibrun's subcommands.
func Main(args, env []string, commands []manual.Page, stdout, stderr io.Writer) int {
	page := Page()
	switch {
	case manual.IsHelp(args):
		fmt.Fprint(stdout, page.Help())
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
	fmt.Fprintf(stderr, "ibrun completion: want bash, zsh or fish, not %q\n%s", strings.Join(args, " "), page.Usage())
	return exitUsage
}

// scripts returns the script of each shell.
func scripts() map[string]string {
	return map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
}
