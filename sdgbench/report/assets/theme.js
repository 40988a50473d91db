// The button that switches between the light and the dark theme.

function themeButton() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.classList.contains("dark") || root.classList.contains("light")
    ? root.classList.contains("dark") : system.matches);
  const updateLabel = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
  };
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    root.classList.remove("light", "dark");
    root.classList.add(next);
    updateLabel();
  });
  system.addEventListener("change", updateLabel);
  updateLabel();
}
