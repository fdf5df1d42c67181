{{/* The pod of a watcher or a consumer group: (dict root group labels config existing grace leader component). */}}
{{- define "qwatch.pod" -}}
{{- $root := .root -}}{{- $v := $root.Values -}}{{- $g := .group -}}
{{- $image := mergeOverwrite (deepCopy $v.image) (deepCopy (get $g "image" | default dict)) -}}
{{- if not $image.tag -}}{{- $_ := set $image "tag" $root.Chart.AppVersion -}}{{- end -}}
metadata:
  labels:
    {{- .labels | nindent 4 }}
    {{- if $v.workloadIdentity.enabled }}
    azure.workload.identity/use: "true"
    {{- end }}
    {{- with $g.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .config $g.podAnnotations }}
  annotations:
    {{- with .config }}
    checksum/config: {{ sha256sum . }}
    {{- end }}
    {{- with $g.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "qwatch.serviceAccount" $root | quote }}
  automountServiceAccountToken: {{ .leader }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  {{- with $g.sidecars }}
  initContainers:
    {{- range . }}
    - {{- mergeOverwrite (dict "securityContext" (deepCopy $v.securityContext)) (deepCopy .) (dict "restartPolicy" "Always") | toYaml | nindent 6 }}
    {{- end }}
  {{- end }}
  containers:
    - name: qwatch
      image: {{ include "qwatch.image" $image }}
      imagePullPolicy: {{ $image.pullPolicy }}
      args: [run, -c, {{ printf "/etc/qwatch/%s" (.existing.key | default "qwatch.yaml") }}, --log-level, {{ $g.logLevel }}, --log-format, {{ $g.logFormat }}]
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- with $v.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $g.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with concat $v.envFrom ($g.envFrom | default list) }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: 9780}
        - {name: probes, containerPort: 9781}
        {{- if eq .component "watcher" }}
        - {name: grpc, containerPort: 9782}
        {{- end }}
      startupProbe:
        httpGet: {path: /startupz, port: probes}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /livez, port: probes}
        periodSeconds: 10
        timeoutSeconds: 3
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: probes}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      resources:
        {{- toYaml $g.resources | nindent 8 }}
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/qwatch, readOnly: true}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $g.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      {{- if and .existing.name (eq .existing.kind "Secret") }}
      secret: {secretName: {{ .existing.name | quote }}}
      {{- else }}
      configMap: {name: {{ .existing.name | default .name | quote }}}
      {{- end }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with $g.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $g.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $g.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $g.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $g.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if $g.topologySpreadConstraints }}
    {{- toYaml $g.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- .labelSelector | nindent 10 }}
    {{- end }}
{{- end -}}
