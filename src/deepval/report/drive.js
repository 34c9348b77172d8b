(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const play = document.getElementById("play"), slider = document.getElementById("frame");
  const halves = [...document.querySelectorAll("section")].map((node, index) => ({
    arm: data.arms[index],
    road: node.querySelectorAll("canvas")[0],
    strip: node.querySelectorAll("canvas")[1],
    text: node.querySelector(".state"),
  }));
  const frames = data.arms[0].s_m.length, scale = 11, lane = 3.5;
  slider.max = frames - 1;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const touched = (arm, frame) => arm.contacts.some((contact) => Math.abs(contact[0] - frame) < 5);

  function box(pen, x, y, size, heading, fill) {
    pen.save();
    pen.translate(x, y);
    pen.rotate(-heading);
    pen.fillStyle = fill;
    pen.fillRect((-size[1] / 2) * scale, (-size[0] / 2) * scale, size[1] * scale, size[0] * scale);
    pen.restore();
  }

  function road({ arm, road: canvas }, frame) {
    const pen = canvas.getContext("2d"), middle = canvas.width / 2, foot = canvas.height - 80;
    const here = arm.s_m[frame], side = arm.d_m[frame];
    const x = (d) => middle - d * scale, y = (s) => foot - (s - here) * scale;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.strokeStyle = colour("--paper");
    pen.lineWidth = 3;
    for (const d of [-lane / 2, lane / 2, 1.5 * lane]) {
      pen.setLineDash(d === lane / 2 ? [24, 20] : []);
      pen.lineDashOffset = -here * scale;
      pen.beginPath();
      pen.moveTo(x(d), 0);
      pen.lineTo(x(d), canvas.height);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.fillStyle = colour("--ink");
    pen.font = "12px system-ui, sans-serif";
    for (let s = Math.ceil((here - 10) / 10) * 10; s < here + 60; s += 10) {
      pen.fillRect(0, y(s), 8, 1);
      pen.fillText(`${s} m`, 12, y(s) + 4);
    }
    data.actors.size_m.forEach((size, actor) => {
      const s = data.actors.s_m[actor][frame], d = data.actors.d_m[actor][frame];
      if (s > here - 15 && s < here + 65) box(pen, x(d), y(s), size, data.actors.heading_rad[actor][frame], colour("--car"));
    });
    const fill = touched(arm, frame) ? "#dc2626" : arm.escalated[frame] ? colour("--mark") : "#2563eb";
    box(pen, x(side), y(here - 0.25), [4.5, 1.8], 0, fill);
    if (arm.action[frame] > 0) {
      pen.fillStyle = "#dc2626";
      pen.fillRect(x(side) - 10, y(here - 2.5), 20, 2 + arm.action[frame] * 2);
    }
  }

  function strip({ arm, strip: canvas }, frame) {
    const pen = canvas.getContext("2d"), wide = canvas.width / frames;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    arm.escalated.forEach((yes, index) => {
      pen.fillStyle = yes ? colour("--mark") : colour("--road");
      pen.fillRect(index * wide, 0, wide, 14);
      pen.fillStyle = "#dc2626";
      pen.fillRect(index * wide, 30 - arm.action[index] * 2, wide, arm.action[index] * 2);
    });
    pen.fillStyle = colour("--ink");
    pen.fillRect(frame * wide, 0, 2, 30);
  }

  function show() {
    const frame = Number(slider.value);
    for (const half of halves) {
      const { arm } = half;
      road(half, frame);
      strip(half, frame);
      const loss = arm.loss.slice(0, frame + 1).reduce((sum, part) => sum + part, 0);
      const calls = arm.escalated.slice(0, frame + 1).reduce((sum, part) => sum + part, 0);
      half.text.textContent = `${(frame / 10).toFixed(1)} s, ${arm.speed_mps[frame].toFixed(1)} m/s, brake ` +
        `${arm.action[frame].toFixed(1)} m/s², loss so far ${loss.toFixed(1)}, ${calls} escalated`;
    }
  }

  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (Number(slider.value) === frames - 1) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (Number(slider.value) === frames - 1) stop();
    }, 100);
  });
  slider.addEventListener("input", show);
  show();
})();
