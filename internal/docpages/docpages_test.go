package docpages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const example = "# Page\n\n```sh needs=go\nmkdir a\ncd a\n```\n\n```text file=b\nx $y\n```\n\n* In a list:\n\n" +
	"  ```sh needs=go\n  cat b\n  printf '%s\\n' 12 3.5\n  ```\n\n```text output=like\nx $y\n4\n5\n```\n\n" +
	"```sh needs=ssh\nfalse\n```\n"

func blocks(t *testing.T, text string) []Block {
	t.Helper()
	all, err := Blocks("page.md", text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTyping: one shell types the blocks of a kind, writes the files, and the output is compared.
func TestTyping(t *testing.T) {
	for text, want := range map[string]string{
		example: "",
		strings.Replace(example, "output=like", "output", 1):                        "page.md:19: the commands print\nx $y\n12\n3.5\n",
		strings.Replace(example, "4\n5", "4\nN", 1):                                 "",
		strings.Replace(example, "x $y\n4\n5", "x ...\n5", 1):                       "",
		strings.Replace(example, "cat b", "cat c", 1):                               "page.md:14 failed:\ncat c\n",
		strings.Replace(example, "needs=ssh", "needs=go", 1):                        "page.md:25 failed:\nfalse\n",
		strings.Replace(example, "sh needs=go\nmkdir a\ncd a", "sh needs=ci\nb", 1): "",
	} {
		dir := t.TempDir()
		typing, err := NewTyping(blocks(t, text), dir, "go")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", typing.Script(dir))
		cmd.Dir = t.TempDir()
		runErr := cmd.Run()
		got := ""
		if err := typing.Result(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s\ngot %q, want %q (the shell: %v)", text, got, want, runErr)
		}
	}
	if typing, err := NewTyping(blocks(t, example), t.TempDir(), "rdma"); typing != nil || err != nil {
		t.Errorf("%v, %v; the page has no such commands", typing, err)
	}
}

// TestNodes: each line is typed on a machine of its own, at the same time; if one fails, the block fails.
func TestNodes(t *testing.T) {
	for text, want := range map[string]bool{"cat pipe\necho a >pipe": true, "cat pipe\necho a >pipe; false": false} {
		dir := t.TempDir()
		page := "```sh needs=go\nmkfifo pipe\n```\n```sh needs=go nodes=2\n" + text + "\n```\n```text output\na\n```"
		typing, err := NewTyping(blocks(t, page), dir, "go")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", typing.Script(dir))
		cmd.Dir = t.TempDir()
		if err := cmd.Run(); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
		if err := typing.Result(); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestCheck shows which tags are accepted.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a\n\n\tx\n\ty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for info, want := range map[string]bool{
		"sh needs=go": true, "sh needs=go nodes=2": true, "text output": true, "text output=sorted": true, "go file=a.go": true,
		"text synopsis": true, "text sample": true, "go file=x.go from=a.go": true, "go from=a.go": true,
		"": false, "sh": false, "go": false, "text needs=go": false, "sh needs=gold": false, "text output=x": false,
		"text other":         false,
		"sh needs=go output": false, "text output nodes=2": false, "go from=b.go": false,
	} {
		b := blocks(t, "```"+info+"\nx\ny\n```")[0]
		if err := b.Check(root); (err == nil) != want {
			t.Errorf("%q: %v", info, err)
		}
	}
	if err := blocks(t, "```go from=a.go\nx\nz\n```")[0].Check(root); err == nil {
		t.Error("a line that the file does not have is accepted")
	}
	if all, err := Blocks("page.md", "```sh needs=go\nx\n"); err == nil {
		t.Errorf("a block without an end: %v", all)
	}
}

// TestProxy: the go command finds the module and its packages in a proxy without a network. A module below it is not a part of
// it.
func TestProxy(t *testing.T) {
	checkout, proxy, work := t.TempDir(), t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module " + module + "\n\ngo 1.26\n", "p/p.go": "package p\n", "p/q/go.mod": "module q\n", "p/q/q.go": "package q\n",
	} {
		file := filepath.Join(checkout, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteProxy(proxy, checkout); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"mod", "init", "example.com/a"}, ""},
		{[]string{"get", module + "/p@latest"}, ""},
		{[]string{"list", "-f", "{{.Module}}", module + "/p"}, module + " v0.1.0-c"},
	} {
		cmd := exec.Command("go", c.words...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GOPROXY=file://"+proxy, "GOMODCACHE="+filepath.Join(work, "cache"),
			"GOFLAGS=-modcacherw", "GOSUMDB=off", "GOWORK=off")
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Fatalf("%q: %v, %q; want %q", c.words, err, out, c.want)
		}
	}
}
