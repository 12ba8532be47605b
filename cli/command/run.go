package command

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/rand"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/run"
)

func newRun(e *environment) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run DIR [flags] -- PROGRAM [ARGS...]",
		Short: "Train with the code of a folder, without building an image",
		Long: `Train with the code of a folder, without building an image.

The command creates a job. Each of its pods has a copy of the folder at /code as its working directory. PROGRAM is a Python
file of the folder, or -m and a module. ARGS are its arguments. Then the command prints the log of the leader until the job
ends. If another replica fails, it also prints the last output of that replica. Messages go to stderr, and the log goes to
stdout.

Code: the folder without the files that .gitignore and .trainignore name. Both have the syntax of .gitignore, and
.trainignore has priority. Files that probably have credentials, such as .env and private keys, are left out: everybody who
may read the namespace can read the code. Put them into a Secret, and use --env-from. Small code goes into a ConfigMap.
Code with more than 900 KiB or 1000 files goes into a PersistentVolumeClaim, so the cluster must have storage. With several
nodes, the storage must support ReadWriteMany. The ConfigMap or claim is deleted with the job.

Results: everything that a program writes into a container, also into /code, is lost with the pod. Write results to a claim
(--claim).

Processes: a PyTorchTrainingJob with several nodes or processes starts them with torchrun, and a DeepSpeedJob with the
launcher of DeepSpeed. TensorFlow has one process on each node.

Image: it must have Python and the packages of the training. The pods meet the Pod Security Standard "restricted", so an
image that runs as root needs --run-as-user.

Ctrl-C asks whether to leave the job alone (detach), to pause it or to delete it. While the code is uploaded, Ctrl-C deletes
everything that the command has created. If the command is killed in that time, a paused job is left. kubectl train list
shows it, and kubectl train delete deletes it with its code.

The exit code is 0 if the job has succeeded, 1 if the command has failed, 2 if the job has failed, and 130 if a signal ended
the command.`,
		Example: `  # Train with one process, with the image of the variable KUBECTL_TRAIN_IMAGE
  kubectl train run . -- train.py --epochs=5

  # Train on 2 nodes with 4 GPUs and 4 processes each, in a queue, and keep the checkpoints on a claim
  kubectl train run ./digits --image=example.com/torch:2.6 --nodes=2 --gpus=4 --queue=research \
    --claim=checkpoints:/ckpt -- train.py --checkpoint=/ckpt/model.pt

  # Use a public image that runs as root
  kubectl train run . --image=pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime --run-as-user=1000 -- train.py

  # Train elastically with 2 to 8 nodes, and show the event files in a TensorBoard
  kubectl train run . --elastic=2:8 --claim=logs:/logs --tensorboard=/logs/runs -- train.py --logdir=/logs/runs

  # Train a module with DeepSpeed, in the background
  kubectl train run . --kind=deepspeed --procs=2 --detach -- -m digits.train

  # Write the objects into a file instead of creating them
  kubectl train run . --dry-run=client -o yaml -- train.py > job.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 1 || len(args) < 2 {
				return errors.New("name a folder, and after -- a program of this folder, as in: " +
					"kubectl train run . -- train.py")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			if cmd.ArgsLenAtDash() >= 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, f, args[0], args[1:]) },
	}
	f.add(cmd)
	return cmd
}

// run carries out kubectl train run with the code in the folder dir.
func (e *environment) run(cmd *cobra.Command, f *runFlags, dir string, program []string) error {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	options.Program = program
	folder, err := code.Read(dir)
	if err != nil {
		return err
	}
	options.Name = cmp.Or(options.Name, run.NameFor(filepath.Base(folder.Path), rand.String(5)))
	s := newConsole(e.Out, e.ErrOut)
	reportLeftOut(s, folder)
	namespace, isExplicit, err := e.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	options.Paused = f.dryRun == dryRunNone
	// Without a cluster, the objects have a namespace only if the flag --namespace sets it, as with kubectl create.
	if f.dryRun != dryRunClient || isExplicit {
		options.Namespace = namespace
	}
	objects, err := run.New(options, folder)
	if err != nil {
		return err
	}
	if f.dryRun == dryRunClient {
		return e.printManifest(objects, folder, f.output)
	}
	c, err := e.connect()
	if err != nil {
		return err
	}
	if err := options.Kind.CheckServed(c.RESTMapper()); err != nil {
		return err
	}
	objects.Job.Flags = c.flags
	if f.dryRun == dryRunServer {
		if err := checkObjects(cmd.Context(), c, objects); err != nil {
			return err
		}
		return e.printManifest(objects, folder, f.output)
	}
	p := &preparation{cluster: c, screen: s, objects: objects, folder: folder, codeClaim: options.CodeClaim}
	if err := p.run(cmd.Context()); err != nil {
		return err
	}
	if f.detach && f.output != "" {
		objects.Upload = nil // the pod of the upload has been deleted
		return e.printRunObjects(objects, f.output)
	}
	if f.detach {
		s.message("%s", goesOn(objects.Job))
		return nil
	}
	return e.follow(cmd.Context(), c, s, objects.Job)
}

// reportLeftOut prints the files and folders that are left out although no ignore file names them.
func reportLeftOut(s *console, folder *code.Folder) {
	hasSecrets := false
	for _, left := range folder.LeftOut {
		s.message("%s is left out: it %s", left.Path, left.Reason)
		hasSecrets = hasSecrets || left.IsSecret
	}
	if hasSecrets {
		s.message("To give credentials to the training: kubectl create secret generic NAME --from-env-file=FILE, " +
			"and then kubectl train run --env-from=NAME")
	}
}
