package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/preview"
	"tensorstack.dev/jobs/cli/printable"
	"tensorstack.dev/jobs/cli/run"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/common/shell"
)

// printManifest prints the objects that the command would create. In YAML, a comment before the objects explains how
// to use them.
func (e *environment) printManifest(objects *run.Objects, folder *code.Folder, output string) error {
	if output == "yaml" {
		if _, err := io.WriteString(e.Out, usage(objects, folder)); err != nil {
			return err
		}
	}
	return e.printRunObjects(objects, output)
}

// checkObjects lets the API server check the objects and set their defaults in a dry run. Then it clears the fields
// that a manifest for kubectl apply must not have, such as the UID.
func checkObjects(ctx context.Context, c *cluster, objects *run.Objects) error {
	for _, object := range objects.All() {
		err := createOrAdapt(objects, object, func() error { return c.Create(ctx, object, client.DryRunAll) })
		if err != nil {
			return err
		}
		if pod, ok := object.(*corev1.Pod); ok && lacksLocalQueue(pod) {
			if err := setLocalQueue(pod, objects.Job); err != nil {
				return err
			}
		}
		object.SetUID("")
		object.SetGeneration(0)
		object.SetCreationTimestamp(metav1.Time{})
	}
	return nil
}

// printRunObjects prints objects in an output format. It leaves out empty fields that are there only because of the
// Go types. If the format is empty, it prints the names of the objects.
func (e *environment) printRunObjects(objects *run.Objects, output string) error {
	var plain []client.Object
	for _, object := range objects.All() {
		sent, err := preview.Unstructured(object)
		if err != nil {
			return err
		}
		sent.SetManagedFields(nil)
		prune(sent.Object)
		plain = append(plain, sent)
	}
	return e.printObjects(plain, cmp.Or(output, "name"), output == "json")
}

// prune removes null values and empty maps. It keeps an empty emptyDir, since this is a valid source of a volume.
func prune(content map[string]any) {
	for key, value := range content {
		switch value := value.(type) {
		case nil:
			delete(content, key)
		case map[string]any:
			prune(value)
			if len(value) == 0 && key != "emptyDir" {
				delete(content, key)
			}
		case []any:
			for _, item := range value {
				if item, ok := item.(map[string]any); ok {
					prune(item)
				}
			}
		}
	}
}

// maxApply is the size limit, in bytes, of the annotation in which kubectl apply stores an object.
const maxApply = 256 << 10

// usage returns a YAML comment that explains how to use the objects.
func usage(objects *run.Objects, folder *code.Folder) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString("# " + printable.Escaped(fmt.Sprintf(format, args...)) + "\n")
	}
	switch {
	case objects.Upload != nil:
		line("The code of %s has %s and %s, which is too large for a ConfigMap. It is not in this file.",
			folder.Path, report.Count(len(folder.Files), "file"), code.Bytes(folder.Size()))
		line("After kubectl apply -f FILE, upload the code and start the job:")
		line("  kubectl wait --for=condition=Ready pod/%s --timeout=10m", objects.Upload.Name)
		var files strings.Builder // lists each file: tar on the folder would also send files that are left out
		for _, file := range folder.Files {
			files.WriteString(" " + shell.Quote("./"+file.Path))
		}
		line("  tar -C %s -c%s | kubectl exec -i %s -- sh -c 'mkdir -p $CODE && tar -x -C $CODE'",
			shell.Quote(folder.Path), files.String(), objects.Upload.Name)
		line("  kubectl delete pod %s", objects.Upload.Name)
		line(`  kubectl patch %s %s --type=merge -p '{"spec": {"runMode": null}}'`,
			objects.Job.Kind.ShortName, objects.Job.GetName())
	case folder.Size() > maxApply/2:
		line("The code is too large for the annotation of kubectl apply: use kubectl apply --server-side -f FILE.")
	default:
		line("kubectl apply -f FILE creates these objects.")
	}
	return b.String()
}
