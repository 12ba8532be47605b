package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/cli/docs"
)

func newDocs(e *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "docs [PAGE [SECTION]]",
		Short: "Print a page of the documentation",
		Long: `Print a page of the documentation, or a section of it, in Markdown. Without a page, list all pages.

The pages are a part of kubectl train and describe its version. They need no cluster and no network. A link such as
[Stalls](progress#stalls) leads to the section that kubectl train docs progress stalls prints.
Other links are paths in the repository of the project.`,
		Example: `  # List all pages
  kubectl train docs

  # Print the page about problems, or the section about jobs that have failed
  kubectl train docs troubleshooting
  kubectl train docs troubleshooting failed`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: completePages,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, page := range docs.Pages() {
					if _, err := fmt.Fprintf(e.Out, "%-27s %s\n", page.Name, page.Title); err != nil {
						return err
					}
				}
				return nil
			}
			text, err := docs.Find(strings.Join(args, "#"))
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(e.Out, text)
			return err
		},
	}
}

// completePages completes the argument PAGE. The shell shows the title of each page.
func completePages(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var completions []cobra.Completion
	if len(args) == 0 {
		for _, page := range docs.Pages() {
			completions = append(completions, cobra.CompletionWithDesc(page.Name, page.Title))
		}
	}
	return beginningWith(typed, completions), cobra.ShellCompDirectiveNoFileComp
}
