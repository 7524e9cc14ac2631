package guest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/mux"
)

// codeFailed is the exit code if that of the program is unknown. codeUse is the exit code for an invalid command line.
const (
	codeUse    = 2
	codeFailed = 125
)

// Exec is `vm exec args...`: it runs a program on a node and returns its exit code.
func Exec(args []string) int {
	f := flag.NewFlagSet("vm exec", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), "usage: vm exec [-raw] NODE COMMAND [ARGUMENT...]\n"+
			"Runs COMMAND on that node, with this directory, environment and standard input, and ends with its exit code.\n")
		f.PrintDefaults()
	}
	raw := f.Bool("raw", false, "copy the output of other nodes byte for byte, without [n1] before each line")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return codeUse
	}
	node, err := strconv.Atoi(f.Arg(0))
	if err != nil || node < 0 || f.NArg() < 2 {
		f.Usage()
		return codeUse
	}
	code, err := execute(node, f.Args()[1:], *raw)
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm exec: %v\n", err)
	}
	if code < 0 {
		return codeFailed
	}
	return code
}

func execute(node int, args []string, raw bool) (int, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return codeFailed, fmt.Errorf("vm exec works in a guest only: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return codeFailed, err
	}
	c := mux.Command{Node: node, Args: args, Dir: dir}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, NodeVariable+"=") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, NodeVariable+"="+strconv.Itoa(node))
	stdout, stderr := io.Writer(os.Stdout), io.Writer(os.Stderr)
	if raw || strconv.Itoa(node) == os.Getenv(NodeVariable) {
		return mux.Run(conn, c, os.Stdin, stdout, stderr)
	}
	prefix := fmt.Sprintf("[n%d] ", node)
	out, errs := &prefixWriter{to: stdout, prefix: prefix}, &prefixWriter{to: stderr, prefix: prefix}
	code, err := mux.Run(conn, c, os.Stdin, out, errs)
	return code, errors.Join(err, out.flush(), errs.flush())
}
