package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

// The programs in testdata/ways are small. Each one starts as a program of a public repository does: with the same
// arguments, environment, layout of files and output.
var _ = Describe("kubectl train run of programs that start in many ways", Label("train"), func() {
	DescribeTable("trains, in a restricted namespace,", func(ctx context.Context, folder, want string, args ...string) {
		n := newRestricted(ctx)
		command := slices.Concat([]string{"run", "test/e2e/testdata/ways/" + folder, "--name=way", small}, args)
		out, errOut, err := n.train(ctx, command...)
		Expect(err).NotTo(HaveOccurred(), "%s%s", out, errOut)
		Expect(out).To(ContainSubstring(want))
	},
		Entry("configured by a file, as nanoGPT", Label("pytorch"), "config-file",
			"saved ['ckpt.pt'] with batch size 8", pytorchImage, "--nodes=2",
			"--", "train.py", "config/small.py", "--batch_size=8"),
		Entry("with files beside the program, as YOLOv5", Label("pytorch"), "resolved",
			"results in runs/train/exp of names: [person, bicycle] rank 0", pytorchImage, "--procs=2", "--nodes=1",
			"--", "train.py", "--data=data/coco.yaml"),
		Entry("with processes of its own, as detectron2", Label("pytorch"), "spawn",
			"trains with 2 processes and {'SOLVER.LR': '0.01'}", pytorchImage,
			"--", "tools/train_net.py", "--num-gpus", "2", "SOLVER.LR", "0.01"),
		Entry("with overrides, as Hydra", Label("pytorch"), "overrides",
			"overrides [('optim.lr', '1e-3'), ('trainer.path', '${oc.env:HOME}')]", pytorchImage,
			"--", "train.py", "optim.lr=1e-3", "+trainer.path=${oc.env:HOME}"),
		Entry("as a module with subcommands, as PyTorch Lightning", Label("pytorch"), "module",
			"fit with max_epochs: 2 and ['--trainer.devices=1'] on node 0", pytorchImage, "--nodes=2",
			"--", "-m", "project.main", "fit", "--trainer.devices=1"),
		Entry("with progress bars, as Transformers", Label("pytorch"), "bars",
			"local rank 1 of world 2 has trained gpt2", pytorchImage, "--procs=2",
			"--", "run_clm.py", "--model_name_or_path", "gpt2", "--output_dir", "./out", "--do_train"),
		Entry("that reads the environment, as accelerate", Label("pytorch"), "state",
			"process 0 of 2 local 0", pytorchImage, "--nodes=2", "--", "train.py"),
		Entry("with workers that share memory, as timm", Label("pytorch"), "folders",
			"read 6291456 values of /data/imagenet", pytorchImage, "--", "train.py", "/data/imagenet"),
		Entry("with a configuration of DeepSpeed, as DeepSpeedExamples", Label("deepspeed"), "deepspeed",
			"rank 1 has Adam", "--kind=deepspeed", deepspeedImage, "--nodes=2",
			"--", "train.py", "--deepspeed", "--deepspeed_config", "ds_config.json"),
		Entry("as a module with overrides, as the TensorFlow Model Garden", Label("tensorflow"), "tf",
			"worker 0 trains resnet with runtime.strategy='multi worker',task.lr=1", "--kind=tensorflow", tensorflowImage,
			"--nodes=2", "--", "-m", "official.vision.train", "--experiment=resnet", "--model_dir=model",
			"--params_override=runtime.strategy='multi worker',task.lr=1"),
	)

	DescribeTable("saves its work when the job is paused,", func(ctx context.Context, ranks int, args ...string) {
		n := newRestricted(ctx)
		command := slices.Concat([]string{"run", "test/e2e/testdata/ways/signals", "--name=way", small}, args)
		run, err := gexec.Start(n.command(ctx, append(command, "--", "train.py")...), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		allPrint := func(what string) {
			GinkgoHelper()
			for range ranks {
				Eventually(ctx, run).Should(gbytes.Say(`rank \d ` + what))
			}
		}
		allPrint("trains")
		_, errOut, err := n.train(ctx, "pause", "way")
		Expect(err).NotTo(HaveOccurred(), errOut)
		allPrint("has saved")
		Eventually(ctx, run.Err).Should(gbytes.Say(`/way is paused\. .*To continue it: kubectl train resume`))
		Eventually(ctx, run.Interrupt()).Should(gexec.Exit(130))
	},
		Entry("as PyTorch Lightning", Label("pytorch"), 1, pytorchImage),
		Entry("under torchrun", Label("pytorch"), 2, pytorchImage, "--procs=2"),
		Entry("under DeepSpeed", Label("deepspeed"), 2, "--kind=deepspeed", deepspeedImage, "--nodes=2"),
	)
})
