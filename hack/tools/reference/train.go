package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// listedCommand matches a command in the list of commands of a program.
var listedCommand = regexp.MustCompile(`(?m)^  ([a-z]+) +\S.*$`)

// inCell escapes the text of a cell of a table.
var inCell = strings.NewReplacer("|", `\|`, "<", `\<`)

// commandsIn returns the names of the commands in the help text of a program, except help.
func commandsIn(help string) []string {
	_, list, _ := strings.Cut(help, "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for _, found := range listedCommand.FindAllStringSubmatch(list, -1) {
		if found[1] != "help" {
			names = append(names, found[1])
		}
	}
	return names
}

// trainPage returns the page of the commands of kubectl train. The parameter help maps each command to its help text.
// The flags that all commands have are those of kubectl, and are left out.
func trainPage(commands []string, help map[string]string) (string, error) {
	var page strings.Builder
	page.WriteString("# Commands of kubectl train\n\n" +
		"[kubectl train](../train/kubectl-train.md) shows how to use these commands. Each command also has the flags of " +
		"kubectl that select the cluster, the\nnamespace and the user, such as `--context`, `--namespace` and `--as`.\n")
	for _, command := range slices.Sorted(slices.Values(commands)) {
		text, flags, ok := strings.Cut(help[command], "\nFlags:\n")
		if !ok {
			return "", fmt.Errorf("the help of kubectl train %s has no flags: %q", command, help[command])
		}
		flags, _, _ = strings.Cut(flags, "\nGlobal Flags:\n")
		fmt.Fprintf(&page, "\n## kubectl train %s\n\n```text\n%s\n```\n", command, strings.TrimSpace(text))
		for i, o := range optionsOf(flags) {
			if i == 0 {
				page.WriteString("\n| Flag | Default | Meaning |\n| --- | --- | --- |\n")
			}
			name := "`--" + o.name + "`"
			if o.short != "" {
				name = "`-" + o.short + "`, " + name
			}
			fmt.Fprintf(&page, "| %s | %s | %s |\n", name, o.fallback, inCell.Replace(o.meaning))
		}
	}
	return page.String(), nil
}
