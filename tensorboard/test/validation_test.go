package test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Bad input", func() {
	DescribeTable("is refused at apply, with a message that names the field",
		func(ctx context.Context, spec, field, message string) {
			err := plane.Client.Create(ctx, manifest("default", spec), client.DryRunAll)
			Expect(err).To(MatchError(And(ContainSubstring(field), ContainSubstring(message))))
		},
		Entry("no sources", `{}`, "spec", "there are no logs to show: set trainingLogFilesets or logDir"),
		Entry("an empty logDir", `logDir: {}`, "spec", "there are no logs to show"),
		Entry("a fileset of another kind", `trainingLogFilesets: ["t9k://nfs/x"]`, "spec.trainingLogFilesets[0]",
			"a fileset must look like t9k://pvc/"),
		Entry("a fileset out of its claim", `trainingLogFilesets: ["t9k://pvc/data/../other"]`, "spec.trainingLogFilesets[0]",
			"'..' is not allowed"),
		Entry("a folder out of its claim", `logDir: {pvc: [{name: data, subPath: [a/../../b]}]}`,
			"spec.logDir.pvc[0].subPath[0]", "'..' are not allowed"),
		Entry("an absolute folder", `logDir: {pvc: [{name: data, subPath: [/etc]}]}`, "spec.logDir.pvc[0].subPath[0]",
			"must be relative"),
		Entry("a claim twice", `logDir: {pvc: [{name: data}, {name: data}]}`, "spec.logDir.pvc[1]", "Duplicate value"),
		Entry("an S3 folder that is none", `logDir: {s3: {secretRef: {name: keys}, uri: ["https://bucket"]}}`,
			"spec.logDir.s3.uri[0]", "an S3 folder must look like s3://"),
		Entry("an S3 folder out of its bucket", `logDir: {s3: {secretRef: {name: keys}, uri: ["s3://bucket/.."]}}`,
			"spec.logDir.s3.uri[0]", "'..' is not allowed"),
		Entry("S3 without credentials", `logDir: {s3: {secretRef: {}, uri: ["s3://bucket"]}}`, "spec.logDir.s3.secretRef",
			"secretRef.name is required"),
		Entry("a claim with a folder", `logDir: {pvc: [{name: data/logs}]}`, "spec.logDir.pvc[0].name",
			"folders in it are named by subPath"),
		Entry("S3 without folders", `logDir: {s3: {secretRef: {name: keys}, uri: []}}`, "spec.logDir.s3.uri",
			"should have at least 1 items"),
		Entry("an address with a password", `logDir: {http: {url: ["https://me:secret@host/file"]}}`,
			"spec.logDir.http.url[0]", "without a user name, password"),
		Entry("an address with a signature", `logDir: {http: {url: ["https://host/file?sig=secret"]}}`,
			"spec.logDir.http.url[0]", "or query"),
		Entry("an address of another scheme", `logDir: {http: {url: ["ftp://host/file"]}}`, "spec.logDir.http.url[0]",
			"must look like http://"),
		Entry("an address of no file", `logDir: {http: {url: ["http://host/"]}}`, "spec.logDir.http.url[0]",
			"must look like http://"),
		Entry("more than 64 filesets", `trainingLogFilesets: [`+strings.Repeat(`"t9k://pvc/a", `, 65)+`]`,
			"spec.trainingLogFilesets", "must have at most 64 items"),
		Entry("an image whose name is too long", remote+"image: "+strings.Repeat("a", 4097),
			"spec.image", "may not be more than 4096 bytes"),
		Entry("more than 64 claims of resources", remote+`resources: {claims: [`+strings.Repeat(`{name: a}, `, 65)+`]}`,
			"spec.resources.claims", "must have at most 64 items"),
		Entry("a priority out of range", remote+"scheduler: {t9kScheduler: {queue: q, priority: 101}}",
			"spec.scheduler.t9kScheduler.priority", "less than or equal to 100"),
	)

	DescribeTable("in the name is refused", func(ctx context.Context, name string) {
		tb := manifest("default", remote)
		tb.SetName(name)
		Expect(
			plane.Client.Create(ctx, tb, client.DryRunAll),
		).To(MatchError(ContainSubstring("metadata.name must be a DNS-1035 label of at most 60 characters")))
	},
		Entry("with a dot", "qwen2.5"),
		Entry("that begins with a digit", "1st"),
		Entry("that is too long", strings.Repeat("a", 61)),
	)

	It("in a change of the scheduler is refused", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		tb.Spec.Scheduler = nil
		err := plane.Client.Patch(ctx, tb,
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"scheduler":{"t9kScheduler":{"queue":"q"}}}}`)))
		Expect(err).To(MatchError(ContainSubstring("scheduler cannot be changed")))
	})
})
