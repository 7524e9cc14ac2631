package manual

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// options are the flags of ibrun man.
type options struct{ write string }

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("man", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.write, "write", "", "write all manual pages to files in `DIR`, which is made: ibrun.1, ibrun-bench.1, ...")
	return flags
}

// ManPage returns the description of ibrun man.
func ManPage() Page {
	return Page{Name: "man", Summary: "show the manual page of ibrun or of a command",
		Forms:  []string{"man [COMMAND]", "man --write DIR"},
		About:  []string{"If standard output is not a terminal, it prints the source of the page, for troff and mandoc."},
		Groups: []Group{{Title: "Flags", Flags: Flags(new(options).flags())}},
	}
}

// Main is ibrun man args... It returns the exit code. pages are those of ibrun, the first, and of its commands.
func Main(args []string, from Source, pages []Page, stdout *os.File, out, stderr io.Writer) int {
	self := ManPage()
	var o options
	flags := o.flags()
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) || len(args) == 1 && args[0] == "-help" {
		fmt.Fprint(out, self.Help())
		return 0
	}
	name := strings.Join(flags.Args(), " ")
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Name == name })
	switch {
	case err != nil:
	case o.write != "" && name != "":
		err = errors.New("--write writes all pages: leave out " + name)
	case i < 0:
		err = fmt.Errorf("there is no command %q", name)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun man: %v\n%s", err, self.Usage())
		return exitUsage
	}
	switch {
	case o.write != "":
		err = writeAll(o.write, from, pages)
	case term.IsTerminal(int(stdout.Fd())):
		err = show(pages[i].Roff(from, pages), stdout, stderr)
	default:
		_, err = io.WriteString(out, pages[i].Roff(from, pages))
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun man: %v\n", err)
		return exitFailed
	}
	return 0
}

// writeAll writes all pages to files in dir.
func writeAll(dir string, from Source, pages []Page) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for i := range pages {
		if err := os.WriteFile(filepath.Join(dir, pages[i].FileName()), []byte(pages[i].Roff(from, pages)), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// show shows a page with man(1), which has a pager.
func show(page string, stdout *os.File, stderr io.Writer) error {
	cmd := exec.Command("man", "-l", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(page), stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("show the page with man -l -: %w; ibrun help prints the same", err)
	}
	return nil
}
